"""Forked two-rank cases, one after the other: all end clean, nothing is left. TFSCALE_SOAK_CASES: how many (200)."""

import os
import time
from collections import Counter
from pathlib import Path

from tfscale.suite import environment
from tfscale.suite.launch import Bench, launch
from tfscale.suite.launchers import ports, procfs
from tfscale.suite.launchers.local import LocalLauncher
from tfscale.suite.planner import Place
from tfscale.suite.spec import Case, Measure

CASES = int(os.environ.get("TFSCALE_SOAK_CASES", "200"))
WORKLOAD, _, PRESET = os.environ.get("TFSCALE_SOAK_WORKLOAD", "vit/micro").partition("/")


def test_forked_two_rank_cases_end_clean(tmp_path: Path) -> None:
    case = Case(workload=WORKLOAD, preset=PRESET, strategy="multi_worker_mirrored", devices=2, per_replica_batch=2)
    cores = environment.host_cores()
    ends: Counter[str] = Counter()
    failures = []
    with LocalLauncher() as ranks:
        bench = Bench(ranks, Place(cores, max(1, len(cores) // 2)), Measure(trials=1, steps=20, tail_steps=0))
        begun = time.monotonic()
        for number in range(CASES):
            done = launch(bench, case, number % 2, tmp_path / "trial", "timed", lambda rank, event: None, lambda: False)
            blame, notes = done.outcome.failure, done.outcome.notes
            ends[blame.classification if blame else "note" if notes else "clean"] += 1
            starts = [(tmp_path / f"trial/rank{rank}/launch.json").read_text() for rank in (0, 1)]
            ends["forked"] += all('"start": "forked"' in start for start in starts)
            ends["port retries"] += done.port_retries
            if blame or notes:
                failures.append((number, blame, notes, done.outcome.log_tail))
            addresses = done.plans[0].cluster["worker"]
            assert not any(ports.is_listened_on(int(address.rpartition(":")[2])) for address in addresses)
    seconds = time.monotonic() - begun
    print(f"\n{CASES} cases of {WORKLOAD} {PRESET} in {seconds:.0f} s ({seconds / CASES:.2f} s each): {dict(ends)}")
    assert not failures, failures
    assert ends["forked"] == CASES
    assert not [pid for pid in children_of(os.getpid()) if procfs.state(pid) != "Z"]


def children_of(parent: int) -> list[int]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if procfs.parent_of(pid) == parent]
