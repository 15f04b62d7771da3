"""Deadlines of a launch: one a phase, counted from the moment at which the whole job entered it."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "toy"))
import toy_bench as toy

from tfscale.suite.deadlines import RankView, overdue, step_limit_s
from tfscale.suite.events import PHASES, Phase
from tfscale.suite.spec import Measure

MEASURE = Measure(launch_s=10, join_s=20, first_step_s=30, step_s=5)


def view(rank: int, reached: Phase | None, at: float = 0.0, measure: Measure = MEASURE, leads: bool = True) -> RankView:
    """A rank that passed every phase up to `reached` at time `at`."""
    plan = toy.plans(toy.case(devices=4), Path("/nowhere"), measure)[rank]
    made = RankView(plan, leads=leads)
    for name in PHASES[: PHASES.index(reached) + 1] if reached else ():
        made.take({"event": "phase", "name": name, "t_ns": 0}, at)
    return made


@pytest.mark.parametrize(
    ("views", "now", "expected"),
    [
        ([view(0, "started"), view(1, None)], 9.9, None),
        ([view(0, "started"), view(1, None)], 10.1, ("never_started", 1)),
        ([view(0, "started"), view(1, "started", 8)], 17, None),
        ([view(0, "imported"), view(1, "started", 8)], 18.1, ("join_timeout", 1)),
        ([view(0, "imported", 5), view(1, "imported", 8)], 27.9, None),
        ([view(0, "imported", 5), view(1, "imported", 8)], 28.1, ("join_timeout", 0)),
        ([view(0, "joined", 8), view(1, "imported", 8)], 28.1, ("join_timeout", 1)),
        ([view(0, "traced", 9), view(1, "built", 9)], 39.1, ("first_step_timeout", 1)),
        ([view(0, "traced", 9), view(1, "built", 9)], 38.9, None),
        ([view(0, "steady", 50), view(1, "steady", 54)], 55.5, ("hung", 0)),
        ([view(0, "steady", 50), view(1, "written", 50)], 54.5, None),
        ([view(0, "timed", 50), view(1, "written", 50)], 79.5, None),
        ([view(0, "timed", 50), view(1, "written", 50)], 80.5, ("hung", 0)),
        # A worker of a parameter server only has to start; its coordinator has to train.
        ([view(0, "joined", 1), view(1, "imported", 0, leads=False)], 30.9, None),
        ([view(0, "joined", 1), view(1, "imported", 0, leads=False)], 31.1, ("first_step_timeout", 0)),
        ([view(0, "imported", 1), view(1, "started", 0, leads=False)], 11.1, ("join_timeout", 1)),
        ([view(0, "steady", 50), view(1, "joined", 0, leads=False)], 54.0, None),
    ],
)
def test_overdue(views: list[RankView], now: float, expected: tuple[str, int] | None) -> None:
    found = overdue(views, 0.0, now)
    assert (found and (found.classification, found.rank)) == expected


def test_kernels_that_are_compiled_for_a_new_gpu_have_time() -> None:
    views = [view(0, "traced"), view(1, "traced")]
    assert overdue(views, 0.0, 31) is not None
    views[1].compiles_kernels = True
    assert overdue(views, 0.0, 2399) is None
    late = overdue(views, 0.0, 2401)
    assert late is not None and late.classification == "first_step_timeout" and "2400 s" in late.reason


def test_the_rank_with_the_fewest_steps_is_the_one_that_hangs() -> None:
    views = [view(0, "steady", 50), view(1, "steady", 50)]
    views[0].take({"event": "progress", "step": 12, "step_time_s": 0.1, "t_ns": 0}, 51)
    views[1].take({"event": "progress", "step": 11, "step_time_s": 0.1, "t_ns": 0}, 51.1)
    found = overdue(views, 0.0, 57)
    assert found is not None and found.rank == 1 and "after step 11" in found.reason


def test_the_default_limit_follows_the_step_time() -> None:
    slow = view(0, "steady", 50, Measure())
    assert step_limit_s(slow) == 30
    slow.take({"event": "progress", "step": 1, "step_time_s": 4.0, "t_ns": 0}, 51)
    assert step_limit_s(slow) == 80


def test_a_slow_first_step_stretches_the_limit_until_a_step_time_is_known() -> None:
    slow = view(0, "traced", 10, Measure())
    slow.take({"event": "phase", "name": "first_step", "t_ns": 0}, 110)
    assert step_limit_s(slow) == 200
