"""What /proc tells of processes: sessions, states, threads, open device files. Linux only."""

import contextlib
from pathlib import Path

from tfscale.suite.procstat import Process, parse

PROC = Path("/proc")
ACCELERATOR_DEVICES = ("/dev/nvidia", "/dev/accel", "/dev/kfd", "/dev/dri", "/dev/vfio")
FROZEN_STATES = ("T", "t")
"""Stopped by a signal, stopped by a tracer."""


def process(pid: int | str) -> Process | None:
    """The process of that id, or None when it is gone."""
    try:
        return parse((PROC / str(pid) / "stat").read_text(errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def state(pid: int) -> str | None:
    """State letter of a process (R, S, D, T, Z, ...), or None when it is gone."""
    found = process(pid)
    return found.state if found else None


def parent_of(pid: int) -> int | None:
    """Process id of the parent, or None when the process is gone."""
    found = process(pid)
    return found.parent if found else None


def started(pid: int) -> int | None:
    """When a living process started, in clock ticks after boot; None for one that has ended, reaped or not."""
    found = process(pid)
    return found.started if found and found.state not in ("Z", "X") else None


def session_members(session: int) -> list[int]:
    """Living processes of a session; zombies are not alive. A rank is the leader of a session of its own."""
    members = []
    for entry in PROC.iterdir():
        found = process(entry.name) if entry.name.isdigit() else None
        if found and found.session == session and found.state != "Z":
            members.append(found.pid)
    return members


def thread_names() -> list[str]:
    """Names of this process's threads."""
    names = []
    for task in (PROC / "self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread may end while we look
            names.append((task / "comm").read_text().strip())
    return names


def open_accelerator_files() -> list[str]:
    """Accelerator device files that this process holds open."""
    found = []
    for entry in (PROC / "self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:  # the descriptor of this very listing is closed by now
            continue
        if target.startswith(ACCELERATOR_DEVICES):
            found.append(target)
    return found


def describe(pid: int) -> str:
    """State, waiting place and memory of a process, for one whose own stack dump cannot be had."""
    lines = [f"process {pid}: no Python stack"]
    for name in ("wchan", "status"):
        try:
            text = (PROC / str(pid) / name).read_text(errors="replace")
        except OSError as error:
            lines.append(f"{name}: {error}")
            continue
        wanted = ("State", "VmRSS", "VmPeak", "Threads", "SigPnd", "ShdPnd")
        lines += [f"wchan: {text}"] if name == "wchan" else [x for x in text.splitlines() if x.startswith(wanted)]
    return "\n".join(lines)


def cgroup_paths(pid: int | str = "self") -> list[Path]:
    """Folders of the memory cgroup of a process, version 2 and version 1."""
    paths = []
    for line in (PROC / str(pid) / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            paths += [Path("/sys/fs/cgroup") / path.lstrip("/"), Path("/sys/fs/cgroup/unified") / path.lstrip("/")]
        elif "memory" in controllers.split(","):
            paths.append(Path("/sys/fs/cgroup/memory") / path.lstrip("/"))
    return paths


def oom_kills() -> int:
    """How many processes the kernel has killed for memory so far, in our cgroup or on the host."""
    sources = [PROC / "vmstat"]
    for folder in cgroup_paths():
        sources += [folder / "memory.events", folder / "memory.oom_control"]
    return max((_counter(path, "oom_kill") for path in sources), default=0)


def _counter(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:  # not every kernel offers every one of these files
        return 0
    values = [int(line.split()[1]) for line in lines if line.split()[0:1] == [name]]
    return values[0] if values else 0
