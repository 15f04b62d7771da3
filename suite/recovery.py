"""The pass `recovery` of a rank: it trains step by step, saves now and then, and one rank meets the fault of its plan.

A rank that is warned that it is about to be ended tells the others by the control value that travels with the next step.
All see the same sum at the same step, so they save that one together and leave.
"""

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tfscale.suite.checkpoints import Checkpoints, Progress
from tfscale.suite.events import EventLog
from tfscale.suite.plan import Fault, Stretch
from tfscale.suite.preemption import Warned
from tfscale.suite.rankfiles import LOSSES, write_arrays
from tfscale.suite.timing.protocol import Fetched, Runner

if TYPE_CHECKING:
    from tfscale.suite.training.job import Job

WARNED = 1.0
"""Control value of a rank that was warned; any sum above half of it tells all."""
SIGNALS = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}
"""Of the faults that a rank brings over itself; a link is cut from outside once the rank has told of the moment."""


class Saves(Protocol):
    """What saves a rank's training and takes it up again; see training/saving.py."""

    checkpoints: Checkpoints

    def save(self, done: Fetched, losses: Sequence[float]) -> int: ...

    def resume(self, step: int) -> Progress: ...


@dataclass
class Trained:
    """What a launch saw of a training. `losses`: of all calls so far, those of earlier launches included."""

    step: int = 0
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Of each call of this launch, the saving after it left out."""
    saved: list[tuple[int, float, int]] = field(default_factory=list)
    """Step, seconds and bytes of each checkpoint of this launch."""
    preempted: bool = False


def recovery_pass(job: "Job", events: EventLog) -> None:
    """Train the plan's stretch and write `losses.npz`, or save and tell that the rank is preempted.

    Raises ValueError when the plan has no stretch, NoCheckpointError when it cannot go on from the checkpoint named.
    """
    from tfscale.suite.training.saving import Saver

    plan, stretch = job.plan, job.plan.stretch
    if stretch is None or plan.checkpoint_directory is None:
        raise ValueError("a pass that recovers needs a stretch and a folder for its checkpoints")
    warned = Warned()
    saver = Saver(job, Path(plan.checkpoint_directory), stretch.keep)
    events.phase("traced")
    mishap = Mishap(stretch.fault, plan.rank, events)
    trained = train(job.runner, saver, stretch, events, warned, mishap, calls=plan.case.steps_per_call)
    finish(Path(plan.directory), saver, trained, events)


def train(
    runner: Runner,
    saver: Saves,
    stretch: Stretch,
    events: EventLog,
    warned: Warned,
    mishap: "Mishap",
    calls: int = 1,
) -> Trained:
    """Train to the end of the stretch, or until a rank is warned. `calls`: steps of one call.

    Each step is fetched before the next is dispatched: what is saved is the state after just that step.
    """
    trained = Trained()
    if stretch.resume_step is not None:
        progress = saver.resume(stretch.resume_step)
        trained.step, trained.losses = progress.step, list(progress.losses)
    else:
        saver.checkpoints.forget(saver.checkpoints.kept())
    events.checkpoints(trained.step, saver.checkpoints.kept())
    while trained.step < stretch.steps and not trained.preempted:
        begun = time.perf_counter()
        fetched = runner.dispatch(calls, WARNED if warned.now else 0.0).fetch()
        trained.seconds.append(time.perf_counter() - begun)
        trained.step = fetched.step
        trained.losses.append(fetched.loss)
        if len(trained.seconds) == 1:
            events.phase("first_step", step=fetched.step, loss=repr(fetched.loss))
            events.phase("steady")
        events.progress(fetched.step, trained.seconds[-1] / calls)
        mishap.after(fetched.step, min(trained.seconds[1:], default=0.0))
        trained.preempted = fetched.control > WARNED / 2
        due = fetched.step % stretch.period_steps == 0 and fetched.step < stretch.steps
        if due or trained.preempted:
            _save(saver, fetched, trained, events)
    mishap.missed()
    return trained


def _save(saver: Saves, fetched: Fetched, trained: Trained, events: EventLog) -> None:
    begun = time.perf_counter()
    size = saver.save(fetched, trained.losses)
    trained.saved.append((fetched.step, time.perf_counter() - begun, size))
    events.checkpoints(fetched.step, saver.checkpoints.kept())


def finish(directory: Path, saver: Saves, trained: Trained, events: EventLog) -> None:
    """Leave what remains of a launch. A finished training needs its checkpoints no more."""
    if trained.preempted:
        events.preempted(trained.step)
        return
    events.phase("timed", steps=trained.step)
    write_arrays(
        directory / LOSSES,
        {
            "loss": np.array(trained.losses, dtype=np.float64),
            "seconds": np.array(trained.seconds, dtype=np.float64),
            "saved": np.array(trained.saved, dtype=np.float64).reshape(-1, 3),
        },
    )
    saver.checkpoints.remove()
    events.phase("written")


class Mishap:
    """Brings a planned fault over this rank, from a thread: so it may come within a step, or while one is saved."""

    def __init__(self, fault: Fault | None, rank: int, events: EventLog) -> None:
        self._fault = fault if fault is not None and fault.rank == rank else None
        self._events = events
        self._step = 0
        self._timer: threading.Timer | None = None

    def after(self, step: int, step_s: float) -> None:
        """Step `step` is complete; one takes `step_s` seconds."""
        self._step = step
        if self._fault is not None and self._timer is None and step >= self._fault.step:
            self._timer = threading.Timer(self._fault.fraction * step_s, self._strike, [self._fault])
            self._timer.daemon = True
            self._timer.start()

    def missed(self) -> None:
        """Training is over: a fault that has not come yet stays away."""
        if self._timer is not None:
            self._timer.cancel()

    def _strike(self, fault: Fault) -> None:
        self._events.fault(fault.kind, self._step)
        if fault.kind in SIGNALS:
            os.kill(os.getpid(), SIGNALS[fault.kind])
