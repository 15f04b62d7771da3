"""The timed pass of a rank: blocks, the tail of single steps, and the files that remain, written before teardown."""

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfscale.suite.events import EventLog
from tfscale.suite.exchange.parse import parse
from tfscale.suite.phases import Phases
from tfscale.suite.rankfiles import BLOCKS, RankResult, write_arrays, write_result
from tfscale.suite.timing.clock import MonotonicClock
from tfscale.suite.timing.loop import measure, stamp_steps
from tfscale.suite.timing.protocol import Fetched, Pending, Runner
from tfscale.suite.timing.stopping import LoopSettings

if TYPE_CHECKING:
    from tfscale.suite.training.job import Job

HEARTBEAT_S = 0.5
"""Least time between two heartbeats."""


def timed_pass(job: "Job", events: EventLog, phases: Phases) -> None:
    """Measure and write `blocks.npz` and `result.json`; the event `written` says that both are on disk."""
    case, settings = job.plan.case, job.plan.measure
    heart = Heart(events)
    events.phase("steady")
    with phases("timed"):
        series = measure(
            job.runner, MonotonicClock(), loop_settings(job), decides=job.plan.decides, on_block=heart.beat
        )
    tail: list[float] = []
    with phases("tail"):
        if settings.tail_steps:
            calls = math.ceil(settings.tail_steps / case.steps_per_call)
            stamps = stamp_steps(HeardRunner(job.runner, heart), MonotonicClock(), calls, case.steps_per_call)
            tail = stamps.tolist()
    events.phase("timed", blocks=len(series))
    directory = Path(job.plan.directory)
    write_arrays(directory / BLOCKS, series.arrays())
    result = account(job, phases, heart.last, tail)  # before the codec, whose memory is not the step's
    write_result(directory, result.model_copy(update={"exchange": exchange_of(job)}))
    events.phase("written")


def exchange_of(job: "Job") -> dict[str, Any]:
    """How this replica's gradients travelled, and what coding them costs; {} where they stay with their replica."""
    step = job.step
    name = step.exchange.resolved() or job.plan.case.exchange
    if not step.gradient_shapes:
        return {}
    from tfscale.suite.exchange import codec
    from tfscale.suite.exchange.stillwire import StillSession

    session = StillSession(job.session.replicas, tuple(job.session.racks), job.session.first_replica)
    if parse(name).name == "none":
        handed = codec.payload("none", step.gradient_shapes, session)
        return {"bytes": step.payload_bytes, "none_bytes": sum(handed.values()), "handed": handed, "exact": True}
    found = codec.cost(name, step.gradient_shapes, step.variables, session, job.session.devices[0])
    return {"bytes": step.payload_bytes, **vars(found)}


def loop_settings(job: "Job") -> LoopSettings:
    """The loop's settings from the suite's; a fixed number of steps is rounded up to whole calls."""
    wanted, calls = job.plan.measure, job.plan.case.steps_per_call
    return LoopSettings(
        target=wanted.target,
        min_s=wanted.min_s,
        budget_s=wanted.budget_s,
        steps_per_call=calls,
        max_steps=max(3, math.ceil(wanted.steps / calls)) * calls if wanted.steps else None,
    )


class Heart:
    """Tells the watcher, at most twice a second, which step was completed last and how long one takes."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._told_s = time.perf_counter()
        self._told_step: int | None = None
        self.last: Fetched | None = None

    def beat(self, fetched: Fetched) -> None:
        self.last = fetched
        now = time.perf_counter()
        if now - self._told_s < HEARTBEAT_S and self._told_step is not None:
            return
        steps = fetched.step - self._told_step if self._told_step is not None else 0
        self._events.progress(fetched.step, (now - self._told_s) / steps if steps > 0 else None)
        self._told_s, self._told_step = now, fetched.step


class HeardRunner:
    """A runner whose every fetch is a heartbeat."""

    def __init__(self, runner: Runner, heart: Heart) -> None:
        self._runner = runner
        self._heart = heart

    def dispatch(self, steps: int, control: float) -> Pending:
        return HeardPending(self._runner.dispatch(steps, control), self._heart)


class HeardPending:
    def __init__(self, pending: Pending, heart: Heart) -> None:
        self._pending = pending
        self._heart = heart

    def fetch(self) -> Fetched:
        fetched = self._pending.fetch()
        self._heart.beat(fetched)
        return fetched


def account(job: "Job", phases: Phases, last: Fetched | None, tail: list[float]) -> RankResult:
    """The rank's own account of the pass."""
    assert last is not None, "a timed pass fetches at least once"
    second = phases.seconds.get("second_step", 0.0)
    compiled = job.plan.case.xla != "none"
    seconds = {name: s for name, s in phases.seconds.items() if name != "second_step"}
    if compiled:
        seconds["compile"] = max(0.0, phases.seconds["first_step"] - second)
    return RankResult(
        rank=job.plan.rank,
        replicas=job.session.replicas,
        phases=seconds,
        effective=job.effective(),
        counts={
            "steps": last.step,
            "samples": last.samples,
            "skipped_steps": last.skipped,
            "retraces": max(0, job.runner.tracings() - 1),
            "parameters": job.parameters,
            "gradient_bytes": job.step.payload_bytes or 0,
        },
        self_check=job.self_check,
        memory_peak_bytes={"host": host_peak_bytes(), "device": job.session.device_peak_bytes()},
        tail_s=tail,
        final_loss_scale=job.loss_scale,
    )


def host_peak_bytes() -> int | None:
    """Peak resident set of this process (VmHWM), or None where /proc has none. In a forked rank the pages of the
    parent's imports count too, as they would in a fresh process."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    kib = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(kib[0]) * 1024 if kib else None
