"""Whose processes use the CPUs: the run's own, the suite's, or somebody else's.

Own are the ranks (`rank*/launch.json` in the trial's folder), all of their sessions and all of their descendants. The
suite's are the harness, this sampler, and the processes between the harness and the ranks with their children.
Threads of the kernel work for everybody and count for nobody. Everything else is foreign.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfscale.suite.procstat import Process, parse
from tfscale.suite.sources.base import Source

NAMED = 5
"""Foreign processes that are named; the others are in the sum."""


def own_and_suite(
    processes: Mapping[int, Process], ranks: set[int], sampler: int, harness: int
) -> tuple[set[int], set[int]]:
    """Process ids of the run and of the suite, by the rule at the top of this file."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    own: set[int] = set()
    todo = [pid for pid, process in processes.items() if pid in ranks or process.session in ranks]
    while todo:
        pid = todo.pop()
        if pid not in own:
            own.add(pid)
            todo += children.get(pid, [])
    between = {pid for rank in ranks for pid in _up_to(harness, processes, rank)}
    beside = {child for pid in between for child in children.get(pid, [])}
    return own, ({sampler, harness} | between | beside) - own


def _up_to(harness: int, processes: Mapping[int, Process], pid: int) -> Sequence[int]:
    """The ancestors of `pid` below the harness; none where it does not descend from the harness."""
    path: list[int] = []
    while (process := processes.get(pid)) and process.parent != harness:
        if process.parent in path or process.parent not in processes:
            return []
        path.append(process.parent)
        pid = process.parent
    return path if process else []


class Accounts:
    """CPU seconds of the run, of the suite and of others, as they grow from look to look."""

    def __init__(self, files: Source, folder: Path) -> None:
        self._files, self._folder = files, folder
        self._sampler = int(str(files.ask("proc/self").value or "0").rpartition("/")[2] or 0)
        me = self._read(self._sampler)
        self._harness = me.parent if me else 0
        self._seen: dict[int, Process] = {}
        self._kernel: set[int] = set()
        self._looked = False
        self.own: set[int] = set()
        self.own_s = 0.0
        self.suite_s = 0.0

    def look(self) -> dict[Process, float]:
        """Read every process; the foreign ones that used CPU since the last look, with the seconds they used."""
        pids = [int(name) for name in self._files.under("proc") if name.isdigit()]
        self._kernel &= set(pids)
        processes = {pid: found for pid in pids if pid not in self._kernel and (found := self._read(pid))}
        self._kernel |= {pid for pid, process in processes.items() if process.kernel}
        self.own, suite = own_and_suite(processes, ranks_in(self._folder), self._sampler, self._harness)
        foreign: dict[Process, float] = {}
        for pid, process in processes.items():
            used = self._growth(process)
            if pid in self.own:
                self.own_s += used
            elif pid in suite:
                self.suite_s += used
            elif used > 0 and not process.kernel:
                foreign[process] = used
        self._seen = processes
        self._looked = True
        return foreign

    def tick(self) -> float:
        """CPU seconds of the run's own processes so far, those that the last look found."""
        for pid in self.own:
            if process := self._read(pid):
                self.own_s += self._growth(process)
                self._seen[pid] = process
        return self.own_s

    def sees_everything(self) -> bool:
        """Whether the processes of the whole machine show here: a container, or hidepid, hides the kernel's own."""
        return str(self._files.ask("proc/2/comm").value) == "kthreadd"

    def _growth(self, process: Process) -> float:
        """CPU seconds since it was last seen; all of them where it is new, which no process is at the first look."""
        before = self._seen.get(process.pid)
        if before and before.started == process.started:
            return max(0.0, process.cpu_s - before.cpu_s)
        return process.cpu_s if self._looked else 0.0

    def _read(self, pid: int) -> Process | None:
        answer = self._files.ask(f"proc/{pid}/stat")
        try:
            return parse(answer.value) if answer.ok else None
        except (ValueError, IndexError):  # it ended while it was read
            return None


def ranks_in(folder: Path) -> set[int]:
    """Process ids of the ranks of a trial that have started."""
    return {pid for path in folder.glob("rank*/launch.json") if (pid := _pid_in(path)) is not None}


def _pid_in(path: Path) -> int | None:
    try:
        document: Any = json.loads(path.read_bytes())
    except (OSError, ValueError):  # being written, or the folder is being emptied: the next look will tell
        return None
    pid = document.get("pid") if isinstance(document, dict) else None
    return pid if isinstance(pid, int) else None


def name_foreign(foreign: Mapping[Process, float], from_ns: int, to_ns: int) -> dict[str, Any]:
    """The foreign processes that used most between two looks, as a fact: pid, name, CPU seconds per second (`cores`)."""
    seconds = (to_ns - from_ns) / 1e9
    most = sorted(foreign.items(), key=lambda entry: -entry[1])[:NAMED]
    named = [{"pid": p.pid, "name": p.name, "cores": round(used / seconds, 4)} for p, used in most]
    return {"from_ns": from_ns, "to_ns": to_ns, "processes": named}


def foreign_over(facts: Sequence[tuple[int, Mapping[str, Any]]], window: tuple[int, int]) -> list[dict[str, Any]]:
    """The foreign processes of a window, most first: pid, name, and `cores`, the mean over all looks that touch it."""
    cores: dict[tuple[int, str], float] = {}
    looked = 0
    for look in (found["foreign"] for _, found in facts if found.get("foreign")):
        overlap = min(window[1], look["to_ns"]) - max(window[0], look["from_ns"])
        if overlap <= 0:
            continue
        looked += overlap
        for process in look["processes"]:
            who = (process["pid"], process["name"])
            cores[who] = cores.get(who, 0.0) + process["cores"] * overlap
    most = sorted(cores.items(), key=lambda entry: -entry[1])[:NAMED]
    return [{"pid": pid, "name": name, "cores": round(total / looked, 4)} for (pid, name), total in most]
