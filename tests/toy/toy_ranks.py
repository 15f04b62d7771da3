"""Runs toy cases in real ranks, forked from one parent that imported TensorFlow. Not a test module."""

import atexit
import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tfscale.suite import registry
from tfscale.suite.events import EventReader
from tfscale.suite.launchers.base import Job
from tfscale.suite.launchers.local import LocalLauncher
from tfscale.suite.plan import Lengths, RankPlan
from tfscale.suite.planner import Folders, Place, plan_launch
from tfscale.suite.rankfiles import BLOCKS, LOG, LOSSES, RankResult, read_arrays, read_result
from tfscale.suite.spec import Case, Measure, Profile

CORES = sorted(os.sched_getaffinity(0))


@cache
def launcher() -> LocalLauncher:
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    started = LocalLauncher()
    atexit.register(started.close)
    return started


def toy(**axes: Any) -> Case:
    return Case(**{"workload": "toy_workload:SGD", "preset": "tiny", "per_replica_batch": 8, **axes})


@dataclass
class Ran:
    """What is left of a launch."""

    plans: list[RankPlan]
    codes: list[int | None]

    def result(self, rank: int = 0) -> RankResult:
        return read_result(Path(self.plans[rank].directory))

    def last_loss(self, rank: int = 0) -> tuple[int, float]:
        """(step, loss) of the last timed step."""
        arrays = read_arrays(Path(self.plans[rank].directory) / BLOCKS)
        return int(arrays["group_step"][-1]), float(arrays["group_loss"][-1])

    def losses(self, rank: int = 0) -> dict[str, Any]:
        return read_arrays(Path(self.plans[rank].directory) / LOSSES)

    def events(self, rank: int = 0) -> list[dict[str, Any]]:
        return EventReader(Path(self.plans[rank].directory)).read()

    def log(self, rank: int = 0) -> str:
        return (Path(self.plans[rank].directory) / LOG).read_text(errors="replace")

    def assert_clean(self) -> "Ran":
        told = [event for rank in range(len(self.plans)) for event in self.events(rank) if event["event"] == "error"]
        assert not told, told[0]["detail"]
        assert self.codes == [0] * len(self.plans), self.log()[-2000:]
        return self


def run(
    case: Case,
    folder: Path,
    *,
    steps: int | None = 20,
    timeout_s: float = 90.0,
    profiled: bool = False,
    pinned: bool = True,
    dropout: float | None = None,
    lengths: Lengths | None = None,
) -> Ran:
    """Launch `case` and wait for its ranks; with `lengths`, the pass that keeps losses.

    `pinned`: with cores of their own, as far as there are any.
    """
    each = max(1, len(CORES) // case.devices)
    place = Place(host_cores=CORES, cores_per_device=each) if pinned else Place(host_cores=[], cores_per_device=0)
    plans = plan_launch(
        case,
        0,
        registry.load("strategies", case.strategy)(),
        place,
        Folders(folder, folder),
        measure=Measure(target=0.5, budget_s=2.0, min_s=0.1, steps=steps, tail_steps=0, dropout=dropout),
        profile=Profile(steps=4, warm_up_steps=2) if profiled else None,
        pass_="losses" if lengths else "profiled" if profiled else "timed",
        lengths=lengths,
    )
    return Ran(plans, wait(launcher().start(plans), timeout_s))


def wait(job: Job, timeout_s: float) -> list[int | None]:
    """Exit codes of all ranks; None for those that had to be ended."""
    deadline = time.monotonic() + timeout_s
    try:
        while None in job.exit_codes() and time.monotonic() < deadline:
            time.sleep(0.02)
        return job.exit_codes()
    finally:
        job.end(0.1)


def assert_same_loss(one: Ran, other: Ran, tolerance: float = 1e-5) -> None:
    """Both ended at the same step with the same loss."""
    (step, loss), (other_step, other_loss) = one.last_loss(), other.last_loss()
    assert step == other_step
    np.testing.assert_allclose(other_loss, loss, rtol=tolerance)
