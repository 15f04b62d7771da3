"""Whose a process is, and how much CPU it used, on trees of /proc made by hand."""

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import tree

from tfscale.suite.monitors.processes import Accounts, foreign_over, own_and_suite
from tfscale.suite.procstat import Process, parse
from tfscale.suite.sources.files import Files

HZ = os.sysconf("SC_CLK_TCK")
KTHREAD = 0x00200000


def stat(
    pid: int, parent: int, session: int, jiffies: int = 0, *, name: str = "x", started: int = 1, flags: int = 0
) -> str:
    """A line of /proc/PID/stat; fields as in the kernel's proc.rst, table 1-4."""
    times = f"{jiffies - jiffies // 3} {jiffies // 3} 1000 1000"  # utime stime cutime cstime
    return f"{pid} ({name}) S {parent} {pid} {session} 0 -1 {flags} 1 2 3 4 {times} 20 0 1 0 {started} 4096 10"


def test_a_name_may_hold_anything() -> None:
    found = parse(stat(7, 3, 5, 30, name="a) (b 1 2", started=99))
    assert found == Process(7, "a) (b 1 2", "S", parent=3, session=5, started=99, cpu_s=30 / HZ, kernel=False)
    assert parse(stat(7, 2, 0, flags=KTHREAD | 0x40)).kernel


def table(*rows: tuple[int, int, int]) -> dict[int, Process]:
    return {pid: Process(pid, "x", "S", parent, session, 1, 0.0, False) for pid, parent, session in rows}


# shell 10 -> harness 20 -> sampler 21, warm parent 30 -> ranks 40, 41 (sessions of their own), one just forked 42
RUN = [(1, 0, 1), (10, 1, 10), (20, 10, 10), (21, 20, 21), (30, 20, 30), (40, 30, 40), (41, 30, 41), (42, 30, 30)]


@pytest.mark.parametrize(
    ("others", "own", "suite"),
    [
        ([], {40, 41}, {20, 21, 30, 42}),
        ([(50, 40, 40), (51, 50, 51)], {40, 41, 50, 51}, {20, 21, 30, 42}),  # a rank's children, a new session too
        ([(52, 1, 41)], {40, 41, 52}, {20, 21, 30, 42}),  # an orphan in a rank's session
        ([(60, 20, 60), (61, 60, 60)], {40, 41}, {20, 21, 30, 42}),  # what else the harness started is foreign
        ([(70, 10, 10), (71, 1, 71)], {40, 41}, {20, 21, 30, 42}),
    ],
)
def test_whose_a_process_is(others: list[tuple[int, int, int]], own: set[int], suite: set[int]) -> None:
    assert own_and_suite(table(*RUN, *others), {40, 41}, 21, 20) == (own, suite)


def test_ranks_that_do_not_descend_from_the_harness_make_nobody_the_suites() -> None:
    rows = [(1, 0, 1), (20, 1, 20), (21, 20, 21), (80, 1, 80), (90, 80, 90), (81, 80, 80)]
    assert own_and_suite(table(*rows), {90}, 21, 20) == ({90}, {20, 21})


class Machine:
    """A /proc whose processes are set anew for each look."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "trial"
        self.set({21: stat(21, 20, 21), 20: stat(20, 1, 20)})
        (root / "proc/self").symlink_to("21")
        self.accounts = Accounts(Files(root), self.folder)

    def set(self, stats: dict[int, str]) -> None:
        for pid, text in stats.items():
            tree.lay(f"proc/{pid}/stat = {text}", self.root)

    def rank(self, rank: int, pid: int) -> None:
        path = self.folder / f"rank{rank}/launch.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"pid": pid, "start": "forked"}))

    def look(self) -> dict[int, float]:
        return {process.pid: used * HZ for process, used in self.accounts.look().items()}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_cpu_time_goes_to_whom_it_belongs(machine: Machine) -> None:
    machine.set({30: stat(30, 20, 30, 100), 40: stat(40, 30, 40, 200), 50: stat(50, 1, 50, 300), 2: stat(2, 0, 0)})
    machine.set({3: stat(3, 2, 0, 400, flags=KTHREAD)})
    machine.rank(0, 40)
    assert machine.look() == {}  # what was used before the first look is nobody's
    machine.set(
        {30: stat(30, 20, 30, 110), 40: stat(40, 30, 40, 225), 50: stat(50, 1, 50, 337), 21: stat(21, 20, 21, 3)}
    )
    machine.set({3: stat(3, 2, 0, 500, flags=KTHREAD)})
    assert machine.look() == pytest.approx({50: 37})
    assert machine.accounts.own_s * HZ == pytest.approx(25)
    assert machine.accounts.suite_s * HZ == pytest.approx(13)


def test_between_looks_a_tick_reads_our_own_and_nothing_twice(machine: Machine) -> None:
    machine.set({40: stat(40, 30, 40, 200)})
    machine.rank(0, 40)
    machine.look()
    machine.set({40: stat(40, 30, 40, 230)})
    assert machine.accounts.tick() * HZ == pytest.approx(30)
    machine.set({40: stat(40, 30, 40, 250)})
    machine.look()
    assert machine.accounts.own_s * HZ == pytest.approx(50)


def test_a_new_process_brings_all_it_used_and_a_reused_number_is_a_new_one(machine: Machine) -> None:
    machine.set({50: stat(50, 1, 50, 300)})
    machine.look()
    machine.set({50: stat(50, 1, 50, 4, started=77), 51: stat(51, 1, 51, 9, started=70)})
    assert machine.look() == pytest.approx({50: 4, 51: 9})


def test_a_rank_file_that_is_being_written_is_asked_again(machine: Machine) -> None:
    machine.rank(0, 40)
    path = machine.folder / "rank0/launch.json"
    whole = path.read_text()
    path.write_text(whole[:5])
    machine.set({40: stat(40, 30, 40)})
    machine.look()
    assert machine.accounts.own == set()
    path.write_text(whole)
    machine.look()
    assert machine.accounts.own == {40}


def look(from_s: float, to_s: float, *processes: tuple[int, float]) -> tuple[int, dict[str, object]]:
    named = [{"pid": pid, "name": f"p{pid}", "cores": cores} for pid, cores in processes]
    return round(to_s * 1e9), {
        "foreign": {"from_ns": round(from_s * 1e9), "to_ns": round(to_s * 1e9), "processes": named}
    }


def test_foreign_processes_of_a_window_are_means_over_its_looks() -> None:
    facts = [
        (0, {"foreign": None}),
        look(0, 1, (5, 1.0)),
        look(1, 2, (5, 1.0), (6, 0.4)),
        look(2, 3),
        look(3, 4, (7, 1)),
    ]
    found = foreign_over(facts, (round(0.5e9), round(3e9)))
    # 2.5 s are looked at: process 5 used 1.5 s of it, process 6 used 0.4 s.
    assert found == [{"pid": 5, "name": "p5", "cores": 0.6}, {"pid": 6, "name": "p6", "cores": 0.16}]
    assert foreign_over(facts, (round(9e9), round(10e9))) == []
