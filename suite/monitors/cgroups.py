"""What the control group of this process allows it, version 2 or 1, and how long it was held back.

A limit of any group above holds too, so the smallest counts. In a container the group often shows as the root of the
tree, under whatever path the host knows it. Formats: the kernel's admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst,
scheduler/sched-bwc.rst.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from tfscale.suite.monitors.grouped import number
from tfscale.suite.sources.base import Source

ROOT = "sys/fs/cgroup"
_V1_UNLIMITED = 2**62
"""Version 1 says `no limit` as the largest number of whole pages; nobody has half of that."""


@dataclass(frozen=True)
class Group:
    """One control group: its folder among the files, and the version of its tree."""

    folder: str
    version: int


def of_this_process(files: Source, controller: str) -> list[Group]:
    """The groups that limit this process by `controller` (cpu, memory), its own first, then those above."""
    listing = files.ask("proc/self/cgroup")
    for line in str(listing.value or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            trees, version = [ROOT, f"{ROOT}/unified"], 2
        elif controller in controllers.split(","):
            trees, version = [f"{ROOT}/{controllers}", f"{ROOT}/{controller}"], 1
        else:
            continue
        for tree in trees:
            if found := _chain(files, tree, path, version, controller):
                return found
    return []


def _chain(files: Source, tree: str, path: str, version: int, controller: str) -> list[Group]:
    """The groups from `path` up that have files of `controller`; the tree's root alone where the path is the host's."""
    parts = [part for part in PurePosixPath(path.lstrip("/")).parts if part != ".."]
    if files.ask("/".join([tree, *parts])).state == "absent":
        parts = []
    folders = ["/".join([tree, *parts[:depth]]) for depth in range(len(parts), -1, -1)]
    return [Group(folder, version) for folder in folders if _governs(files, folder, version, controller)]


def _governs(files: Source, folder: str, version: int, controller: str) -> bool:
    names = {2: f"{controller}.max", 1: "cpu.cfs_quota_us" if controller == "cpu" else "memory.limit_in_bytes"}
    return files.ask(f"{folder}/{names[version]}").ok


def cpu_quota(files: Source, group: Group) -> float | None:
    """Cores that the group may use at once on average, None where it is not limited."""
    if group.version == 2:
        quota, _, period = str(files.ask(f"{group.folder}/cpu.max").value or "").partition(" ")
    else:
        quota = str(files.ask(f"{group.folder}/cpu.cfs_quota_us").value)
        period = str(files.ask(f"{group.folder}/cpu.cfs_period_us").value)
    allowed, of = number(quota), number(period)
    return allowed / of if allowed is not None and of and allowed > 0 else None


def memory_limit(files: Source, group: Group) -> float | None:
    """Bytes of memory that the group may use, None where it is not limited."""
    name = "memory.max" if group.version == 2 else "memory.limit_in_bytes"
    limit = number(str(files.ask(f"{group.folder}/{name}").value))
    return limit if limit is not None and limit < _V1_UNLIMITED else None


def throttled_s(files: Source, groups: Sequence[Group]) -> float | None:
    """Seconds for which CPUs were held back by quotas of `groups`, summed over CPUs; None where none counts them.

    Version 2 counts microseconds, version 1 nanoseconds.
    """
    found = None
    for group in groups:
        for line in str(files.ask(f"{group.folder}/cpu.stat").value or "").splitlines():
            name, _, value = line.partition(" ")
            if name in ("throttled_usec", "throttled_time"):
                found = (found or 0.0) + float(value) * (1e-6 if name == "throttled_usec" else 1e-9)
    return found


def limits(files: Source) -> dict[str, Any]:
    """Facts: version, `cpu_quota` in cores and `memory_limit` in bytes, null where there is no limit."""
    cpu, memory = of_this_process(files, "cpu"), of_this_process(files, "memory")
    versions = {group.version for group in (*cpu, *memory)}
    return {
        "version": max(versions) if versions else None,
        "cpu_quota": _least(cpu_quota, files, cpu),
        "memory_limit": _least(memory_limit, files, memory),
    }


def _least(limit: Callable[[Source, Group], float | None], files: Source, groups: Sequence[Group]) -> float | None:
    return min((found for group in groups if (found := limit(files, group)) is not None), default=None)
