"""Kills a harness at seeded moments, again and again, and looks at what it leaves. Not a test module.

After every kill: no process and no listening port of it is left, the results folder is not locked, every record is whole,
and those that were there before still say the same. In the end `--resume` completes each run.
"""

import hashlib
import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tfscale.suite import store
from tfscale.suite.launchers import ports, procfs
from tfscale.suite.lock import ResultsLock

GONE_S = 10.0
NETNS = Path("/run/netns")

Start = Callable[[Path, bool], "subprocess.Popen[str]"]
"""Starts `tfscale run` on a results folder, to be resumed or not."""


@dataclass
class Tally:
    """What the kills met."""

    kills: int = 0
    seconds: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)
    """`before the run folder`, `temporary file left`, `unfinished`, `completed before the kill`."""

    def __str__(self) -> str:
        return f"{self.kills} kills in {self.seconds:.0f} s: {dict(self.seen)}"


def kills(start: Start, folder: Path, cases: int, wanted: int, seed: int) -> Tally:
    """`wanted` kills of runs of `cases` cases with a trial each, in as many results folders as that takes."""
    chooser, tally, begun = random.Random(seed), Tally(), time.monotonic()
    longest = _undisturbed(start, folder / "undisturbed", cases)
    number = 0
    while tally.kills < wanted:
        results = folder / str(number)
        known = _digests(results)
        harness = start(results, _latest(results))
        time.sleep(chooser.uniform(0.0, longest))
        if harness.poll() is None:
            harness.kill()
            tally.kills += 1
        else:
            tally.seen["completed before the kill"] += 1
        harness.communicate()
        assert_nothing_left(harness.pid, results)
        done = _look(results, known, tally)
        if done == cases or harness.returncode >= 0:
            _complete(start, results, cases)
            number += 1
    if _latest(folder / str(number)):
        _complete(start, folder / str(number), cases)
    tally.seconds = time.monotonic() - begun
    return tally


def assert_nothing_left(harness: int, results: Path) -> None:
    """No process, no port, no lock and no namespace of a harness that has ended; they end by themselves within moments."""
    deadline = time.monotonic() + GONE_S
    while left := processes_of(harness, results):
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.05)
    open_ports = [port for port in _ports(results) if ports.is_listened_on(port)]
    assert not open_ports, f"still listened on: {open_ports}"
    assert not [path for path in (NETNS.iterdir() if NETNS.is_dir() else ()) if str(harness) in path.name]
    if results.is_dir():
        with ResultsLock(results):
            pass


def processes_of(harness: int, results: Path) -> list[int]:
    """Processes that this harness, or one of its parents of ranks, has started and that still run."""
    named = f"--harness\0{harness}\0".encode()
    found = {pid for launch in results.rglob("launch.json") for pid in procfs.session_members(_pid(launch))}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and procfs.state(int(entry.name)) not in (None, "Z"):
            try:
                told = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if named in told or str(results).encode() in told:
                found.add(int(entry.name))
    return sorted(found)


def _undisturbed(start: Start, results: Path, cases: int) -> float:
    begun = time.monotonic()
    _complete(start, results, cases)
    return time.monotonic() - begun


def _complete(start: Start, results: Path, cases: int) -> None:
    before = _digests(results)
    harness = start(results, _latest(results))
    out, told = harness.communicate(timeout=600)
    assert harness.returncode == 0, (out, told)
    loaded = store.load_run(results)
    assert len(loaded.run.records) == len({record.case_id for record in loaded.run.records}) == cases
    assert len(loaded.blocks) == cases and not loaded.run.failed and not loaded.warnings
    assert before.items() <= _digests(results).items(), "a record has changed"


def _look(results: Path, known: dict[str, str], tally: Tally) -> int:
    """Whole records under `results`, and only whole ones."""
    if not _latest(results):
        tally.seen["before the run folder"] += 1
        return 0
    found = store.find_records(results)
    assert all(".tmp: left over" in warning for warning in found.warnings), found.warnings
    assert not found.failures, found.failures
    assert known.items() <= _digests(results).items(), "a record was lost or has changed"
    tally.seen["temporary file left"] += bool(found.warnings)
    tally.seen["unfinished"] += 1
    return len(found.records)


def _digests(results: Path) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in results.rglob("record.json")}


def _latest(results: Path) -> bool:
    """Whether there is a run to be resumed."""
    return any(results.glob("*/suite.yaml"))


def _pid(launch: Path) -> int:
    try:
        return int(json.loads(launch.read_text())["pid"])
    except (OSError, ValueError, KeyError):  # the kill came while it was written
        return -1


def _ports(results: Path) -> set[int]:
    found: set[int] = set()
    for path in results.rglob("plan.json"):
        try:
            cluster = json.loads(path.read_text())["cluster"]
        except (OSError, ValueError, KeyError):
            continue
        found |= {int(address.rpartition(":")[2]) for addresses in cluster.values() for address in addresses}
    return found
