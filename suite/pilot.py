"""The pilot pass of a rank: a step as the case takes it, and the same step with its gradients left where they are."""

import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfscale.suite.adaptive import Pilot
from tfscale.suite.events import EventLog
from tfscale.suite.exchange.none import NoCompression
from tfscale.suite.exchange.wire import Wire
from tfscale.suite.rankfiles import write_atomic

if TYPE_CHECKING:
    from tfscale.suite.strategies.base import TrainRunner
    from tfscale.suite.training.job import Job

FILE = "pilot.json"
WARM_UP, STEPS = 2, 7
"""Calls of the traced step before and while it is timed; the same on every rank, since all must take them together."""


class RidersOnly(NoCompression):
    """Gradients stay with their replica; loss and control travel, so that ranks keep step."""

    name = "riders_only"

    def reduce(self, wire: Wire, gradients: Sequence[Any], riders: Any) -> tuple[list[Any], Any]:
        _, summed = super().reduce(wire, [], riders)
        return list(gradients), summed


def pilot_pass(job: "Job", events: EventLog) -> None:
    """Measure both and write `pilot.json`; the event `written` says that it is on disk."""
    from tfscale.suite.timed import host_peak_bytes

    events.phase("steady")
    size = job.plan.case.steps_per_call
    with_exchange = seconds_a_step(job.runner, size, events)
    device = job.session.device_peak_bytes()
    memory = device if device is not None else host_peak_bytes()
    job.step.exchange = RidersOnly()
    without = seconds_a_step(job.session.runner(job.step, job.feed, size), size, events)
    events.phase("timed")
    found = {"step_s": with_exchange, "alone_s": without, "memory_bytes": memory}
    write_atomic(Path(job.plan.directory) / FILE, json.dumps(found).encode())
    events.phase("written")


def seconds_a_step(runner: "TrainRunner", size: int, events: EventLog) -> float:
    """Median seconds of a step; each call of `size` steps is fetched before the next is made."""
    taken: list[float] = []
    for call in range(WARM_UP + STEPS):
        begun = time.perf_counter()
        fetched = runner.dispatch(size, 0.0).fetch()
        elapsed = (time.perf_counter() - begun) / size
        events.progress(fetched.step, elapsed)
        if call >= WARM_UP:
            taken.append(elapsed)
    return statistics.median(taken)


def read_pilot(directories: Sequence[Path]) -> Pilot:
    """What the ranks of a pilot launch left: the slowest of each. Raises OSError or ValueError."""
    told = [json.loads((directory / FILE).read_bytes()) for directory in directories]
    memory = [each["memory_bytes"] for each in told]
    return Pilot(
        step_s=max(each["step_s"] for each in told),
        alone_s=max(each["alone_s"] for each in told),
        memory_bytes=None if None in memory else max(memory),
    )
