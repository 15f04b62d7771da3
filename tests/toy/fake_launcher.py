"""A launcher without processes: ranks act, in this process, as the toy worker's files and events say."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import toy_worker

from tfscale.suite.events import EventLog, Phase
from tfscale.suite.launchers.base import Job, Launcher
from tfscale.suite.losses import enough
from tfscale.suite.plan import RankPlan
from tfscale.suite.rankfiles import BLOCKS, LOG, LOSSES, write_arrays, write_result

UNTIL_WRITTEN: tuple[Phase, ...] = (
    "started", "imported", "joined", "built", "checked", "traced", "first_step", "steady", "timed"
)  # fmt: skip
Act = Callable[[RankPlan], int | None]
"""What a rank does; its exit code, or None when it stays."""


def good(plan: RankPlan) -> int:
    """Everything a rank leaves after a good pass."""
    if plan.pass_ == "losses":
        return trains(plan, lambda step: 1 / step)
    log = phases(plan, UNTIL_WRITTEN)
    if plan.pass_ == "profiled":
        log.phase("profiled")
    else:
        write_arrays(Path(plan.directory) / BLOCKS, toy_worker.series(plan.case.step_batch).arrays())
        write_result(Path(plan.directory), toy_worker.result(plan))
        log.phase("written")
    log.phase("done")
    return 0


def trains(plan: RankPlan, loss: Callable[[int], float]) -> int:
    """What a rank leaves after a pass that keeps losses: it stops at the target, or at the last step."""
    log = phases(plan, UNTIL_WRITTEN)
    assert plan.lengths is not None
    losses: list[float] = []
    while len(losses) < plan.lengths.most and not enough(losses, plan.lengths):
        losses.append(loss(len(losses) + 1))
    write_arrays(Path(plan.directory) / LOSSES, {"loss": np.array(losses)})
    log.phase("written")
    log.phase("done")
    return 0


def fails(reason: str, detail: str = "") -> Act:
    def act(plan: RankPlan) -> int:
        phases(plan, UNTIL_WRITTEN[:3]).error(reason, detail)
        (Path(plan.directory) / LOG).write_text("the last words\n")
        return 1

    return act


def phases(plan: RankPlan, names: Sequence[Phase]) -> EventLog:
    log = EventLog(Path(plan.directory))
    for name in names:
        log.phase(name)
    return log


class FakeJob(Job):
    def __init__(self, codes: list[int | None]) -> None:
        self.codes = codes
        self.ended = 0

    def exit_codes(self) -> list[int | None]:
        return self.codes

    def stacks(self, rank: int) -> str | None:
        return f"stack of rank {rank}"

    def end(self, grace_s: float = 2.0) -> None:
        self.ended += 1


class FakeLauncher(Launcher):
    """`act(plan)` is what every rank does; `jobs` are the launches so far."""

    name = "fake"

    def __init__(self, act: Act = good) -> None:
        self.act = act
        self.jobs: list[FakeJob] = []
        self.launched: list[RankPlan] = []

    def start(self, plans: Sequence[RankPlan]) -> Job:
        self.launched.append(plans[0])
        self.jobs.append(FakeJob([self.act(plan) for plan in plans]))
        return self.jobs[-1]
