"""Processes on cards: which of them are the run's own, and what a window saw of them.

NVML lists process ids of the host. In a container these can be other numbers than /proc has, or none at all, by driver:
then none of the run's own is among them, which is for the check to see.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tfscale.suite.procstat import Process, parse
from tfscale.suite.sources.base import Source

Listed = Mapping[str, Sequence[Mapping[str, Any]]]
"""Device -> its processes, as NVML gives them: pid, memory in bytes or None."""


def described(files: Source, ranks: set[int], listed: Listed) -> dict[str, list[dict[str, Any]]]:
    """Device -> pid, memory, name and `own`: whether a rank, its child, or of its session; None where /proc lacks it."""
    known: dict[int, tuple[str | None, bool | None]] = {}

    def told(process: Mapping[str, Any]) -> dict[str, Any]:
        pid = int(process["pid"])
        if pid not in known:
            known[pid] = _who(files, ranks, pid)
        name, own = known[pid]
        return {"pid": pid, "name": name, "memory": process["memory"], "own": own}

    return {device: [told(process) for process in processes] for device, processes in listed.items()}


def _who(files: Source, ranks: set[int], pid: int) -> tuple[str | None, bool | None]:
    first = found = _read(files, pid)
    if first is None:
        return None, pid in ranks or None
    seen: set[int] = set()
    while found and found.pid not in seen:
        if found.pid in ranks or found.session in ranks:
            return first.name, True
        seen.add(found.pid)
        found = _read(files, found.parent) if found.parent > 0 else None
    return first.name, False


def _read(files: Source, pid: int) -> Process | None:
    answer = files.ask(f"proc/{pid}/stat")
    try:
        return parse(str(answer.value)) if answer.ok else None
    except (ValueError, IndexError):  # it ended while it was read
        return None


def processes_over(
    facts: Sequence[tuple[int, Mapping[str, Any]]], window: tuple[int, int]
) -> dict[str, list[dict[str, Any]]]:
    """Every process that was on a card at some time of the window, with the most memory that it had.

    Facts are told when they change, so the last before the window still holds at its start.
    """
    told = [(t_ns, found["processes"]) for t_ns, found in facts if "processes" in found]
    told.sort(key=lambda entry: entry[0])
    before = [entry for entry in told if entry[0] <= window[0]][-1:]
    merged: dict[str, dict[int, dict[str, Any]]] = {}
    for _, processes in before + [entry for entry in told if window[0] < entry[0] <= window[1]]:
        for device, listed in processes.items():
            of_device = merged.setdefault(device, {})
            for process in listed:
                earlier = of_device.get(process["pid"], {})
                sizes = [size for size in (earlier.get("memory"), process["memory"]) if size is not None]
                own = process["own"] if process["own"] is not None else earlier.get("own")
                of_device[process["pid"]] = {**process, "own": own, "memory": max(sizes, default=None)}
    return {device: list(found.values()) for device, found in merged.items()}
