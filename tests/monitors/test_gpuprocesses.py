from pathlib import Path
from typing import Any

import pytest

from tfscale.suite.monitors.gpuprocesses import described, processes_over
from tfscale.suite.sources.files import Files


def process(root: Path, pid: int, parent: int, session: int, name: str) -> None:
    """/proc/PID/stat as proc(5) has it: pid (comm) state ppid pgrp session ..., 52 fields."""
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    rest = " ".join(["0"] * 46)
    (folder / "stat").write_text(f"{pid} ({name}) S {parent} {pid} {session} {rest}")


@pytest.mark.parametrize(
    ("pid", "own", "name"),
    [(100, True, "rank"), (102, True, "loader"), (103, True, "odd (name"), (66, False, "miner"), (999, None, None)],
)
def test_whose_a_process_is(tmp_path: Path, pid: int, own: bool | None, name: str | None) -> None:
    """100 is a rank, 101 its child, 102 its grandchild; 103 was orphaned within its session; 999 shows nowhere."""
    process(tmp_path, 1, 0, 1, "init")
    process(tmp_path, 100, 50, 100, "rank")
    process(tmp_path, 50, 1, 50, "harness")
    process(tmp_path, 101, 100, 101, "worker")
    process(tmp_path, 102, 101, 101, "loader")
    process(tmp_path, 103, 1, 100, "odd (name")
    process(tmp_path, 66, 1, 66, "miner")
    listed = {"gpu0": [{"pid": pid, "memory": 5}]}
    assert described(Files(tmp_path), {100}, listed) == {"gpu0": [{"pid": pid, "name": name, "memory": 5, "own": own}]}


def one(pid: int, memory: int | None, own: bool | None = True) -> dict[str, Any]:
    return {"pid": pid, "name": "p", "memory": memory, "own": own}


def test_a_window_remembers_who_came_and_went() -> None:
    facts = [
        (0, {"processes": {"gpu0": [one(1, 10)]}}),  # over before the window
        (5, {"processes": {"gpu0": [one(2, 10, None)]}}),  # still true when it begins
        (15, {"processes": {"gpu0": [one(2, 30), one(3, None)]}}),
        (17, {"processes": {"gpu0": [one(2, 20)]}}),
        (25, {"processes": {"gpu0": [one(4, 10)]}}),  # after it
    ]
    assert processes_over(facts, (10, 20)) == {"gpu0": [one(2, 30), one(3, None)]}
