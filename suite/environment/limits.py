"""What the host lets this process have: cgroup limits and resource limits."""

from typing import Any

from tfscale.suite.environment.reading import UNLIMITED, fields, text
from tfscale.suite.sources.base import Source

_ROOT = "sys/fs/cgroup"
_NO_LIMIT_V1 = 1 << 60
"""cgroup v1 says `no limit` with the largest multiple of the page size, close to 2^63."""
_LIMITS = {
    "Max locked memory": "memlock_bytes",
    "Max open files": "open_files",
    "Max processes": "processes",
    "Max stack size": "stack_bytes",
}


def resource_limits(files: Source) -> dict[str, Any]:
    """Soft limits of this process by /proc/self/limits: a number or `unlimited`; {} where it cannot be read."""
    found: dict[str, Any] = {}
    for line in (text(files, "proc/self/limits") or "").splitlines():
        for label, name in _LIMITS.items():
            if line.startswith(label):
                soft = line[len(label) :].split()[0]
                found[name] = UNLIMITED if soft == "unlimited" else int(soft)
    return found


def cgroup(files: Source) -> dict[str, Any]:
    """The tightest limits on the way from the process's cgroup to the root.

    `cpus` is a number of CPUs (quota / period) and `memory_bytes` a size, each `unlimited` where no group sets one,
    null where no group can be read; `cpuset` is the list of CPUs allowed.
    """
    groups = _groups(text(files, "proc/self/cgroup") or "")
    unified = text(files, f"{_ROOT}/cgroup.controllers") is not None
    if unified:
        quotas = [_quota_v2(text(files, f"{path}/cpu.max")) for path in _upwards(_ROOT, groups.get("", "/"))]
        sizes = [_size(text(files, f"{path}/memory.max")) for path in _upwards(_ROOT, groups.get("", "/"))]
        cpuset = text(files, f"{_ROOT}{groups.get('', '/').rstrip('/')}/cpuset.cpus.effective")
    else:
        quotas = [_quota_v1(files, path) for path in _upwards(f"{_ROOT}/cpu", groups.get("cpu", "/"))]
        sizes = [
            _size(text(files, f"{path}/memory.limit_in_bytes"))
            for path in _upwards(f"{_ROOT}/memory", groups.get("memory", "/"))
        ]
        cpuset = text(files, f"{_ROOT}/cpuset{groups.get('cpuset', '/').rstrip('/')}/cpuset.cpus")
    # The root group of version 2 has no limit files at all: no file on the way up is no limit, not an unknown one.
    return {
        "version": 2 if unified else 1 if groups else None,
        "cpus": _tightest(quotas, unified),
        "memory_bytes": _tightest(sizes, unified),
        "cpuset": cpuset,
    }


def _groups(content: str) -> dict[str, str]:
    """Controller -> path, "" for the unified hierarchy: lines `id:controllers:path` of cgroups(7)."""
    found = {}
    for line in content.splitlines():
        _, controllers, path = line.split(":", 2)
        found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _upwards(root: str, path: str) -> list[str]:
    parts = [part for part in path.split("/") if part and part != ".."]
    return ["/".join([root, *parts[:length]]) for length in range(len(parts), -1, -1)]


def _quota_v2(value: str | None) -> float | None:
    """`max 100000` or `200000 100000`: microseconds of CPU per period."""
    words = (value or "").split()
    if len(words) != 2:
        return None
    return float("inf") if words[0] == "max" else int(words[0]) / int(words[1])


def _quota_v1(files: Source, path: str) -> float | None:
    quota, period = text(files, f"{path}/cpu.cfs_quota_us"), text(files, f"{path}/cpu.cfs_period_us")
    if quota is None or period is None:
        return None
    return float("inf") if int(quota) <= 0 else int(quota) / int(period)


def _size(value: str | None) -> float | None:
    if value is None:
        return None
    return float("inf") if value == "max" or int(value) >= _NO_LIMIT_V1 else int(value)


def _tightest(limits: list[float | None], none_is_unlimited: bool) -> float | str | None:
    known = [limit for limit in limits if limit is not None]
    if not known:
        return UNLIMITED if none_is_unlimited else None
    least = min(known)
    return UNLIMITED if least == float("inf") else least


def load_average(files: Source) -> list[float] | None:
    """Load over 1, 5 and 15 minutes."""
    words = (text(files, "proc/loadavg") or "").split()[:3]
    return [float(word) for word in words] if len(words) == 3 else None


def os_name(files: Source) -> str | None:
    """The distribution's own name, from os-release(5)."""
    for path in ("etc/os-release", "usr/lib/os-release"):
        content = text(files, path)
        if content is not None:
            found = fields("\n".join(line.replace("=", ":", 1) for line in content.splitlines()))
            return found.get("PRETTY_NAME", "").strip('"') or None
    return None
