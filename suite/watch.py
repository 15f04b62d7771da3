"""Watches the ranks of a launch until they are done, fail, or are late. It looks; it starts and ends nothing."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from tfscale.suite.blame import Blame, Evidence, cause
from tfscale.suite.deadlines import RankView, overdue
from tfscale.suite.events import EventReader
from tfscale.suite.launchers import procfs
from tfscale.suite.launchers.base import Job
from tfscale.suite.plan import RankPlan
from tfscale.suite.rankfiles import LOG
from tfscale.suite.ranks import leading

LOG_LINES = 40
_LOG_BYTES = 64 * 1024
SETTLE_S = 1.0
"""How long a failed job is watched on, so that the rank that caused it is seen before it is named."""
LEAVE_S = 20.0
"""How long ranks may take to exit once every result is on disk."""
SAVE_S = 60.0
"""How long the other ranks may take to save once one has said that it is preempted."""

OnEvent = Callable[[int, dict[str, Any]], None]


class Stopped(Exception):
    """The watch was ended by its caller."""


class Preempted(Stopped):
    """The job ended because a rank was warned that its machine is about to be taken away."""


@runtime_checkable
class ShowsState(Protocol):
    """A job that can tell the state letter of a rank's process (T: stopped)."""

    def state(self, rank: int) -> str | None: ...


@dataclass(frozen=True)
class Outcome:
    """How a launch ended. `failure` is None when every result is on disk; `notes` are mishaps after that."""

    failure: Blame | None
    log_tail: str = ""
    stacks: str | None = None
    notes: tuple[str, ...] = ()
    preempted: bool = False
    """A rank was warned, and those that save had the time to; no failure."""
    noticed_s: float | None = None
    """When the failure was first seen, on the clock of `time.perf_counter`; naming its cause may take longer."""


def watch(
    job: Job,
    plans: Sequence[RankPlan],
    *,
    on_event: OnEvent = lambda rank, event: None,
    stop: Callable[[], bool] = lambda: False,
    settle_s: float = SETTLE_S,
    leave_s: float = LEAVE_S,
) -> Outcome:
    """Watch `job` to its end. Raises Stopped as soon as `stop()` is true."""
    return _Watch(job, plans, on_event, stop).run(settle_s, leave_s)


class _Watch:
    def __init__(self, job: Job, plans: Sequence[RankPlan], on_event: OnEvent, stop: Callable[[], bool]) -> None:
        self._job, self._on_event, self._stop = job, on_event, stop
        leads = {plan.rank for plan in leading(plans)}
        self._views = [RankView(plan, leads=plan.rank in leads) for plan in plans]
        self._readers = [EventReader(Path(plan.directory)) for plan in plans]
        self._launched_s = time.perf_counter()
        self._oom_kills = job.oom_kills()
        self._noticed_s: float | None = None

    def run(self, settle_s: float, leave_s: float) -> Outcome:
        while True:
            self._look()
            if all(view.finished for view in self._views if view.leads):
                return self._leave(leave_s)
            if any(view.preempted for view in self._views):
                return self._give_way(SAVE_S)
            if any(view.error or view.exit_code is not None for view in self._views if not view.finished):
                self._noticed_s = time.perf_counter()
                self._settle(settle_s)
                # What settled may be a good end after all: a result that was on its way, or a server told to leave.
                if all(view.finished for view in self._views if view.leads):
                    return self._leave(leave_s)
                if any(view.preempted for view in self._views):
                    return self._give_way(SAVE_S)
                blame = cause(self._evidence(), self._job.oom_kills() > self._oom_kills)
                assert blame is not None  # some rank has an error or an exit code, or the wait would go on
                return self._failed(blame)
            blame = overdue(self._views, self._launched_s, time.perf_counter())
            if blame and not self._found_compiling():
                self._noticed_s = time.perf_counter()
                return self._failed(self._frozen_first(blame))
            self._pause()

    def _found_compiling(self) -> bool:
        """Whether it shows only now that kernels are being compiled for a GPU: the deadlines are longer then."""
        found = [view for view in self._views if not view.compiles_kernels and compiles_kernels(view.plan)]
        for view in found:
            view.compiles_kernels = True
        return bool(found)

    def _look(self) -> None:
        if self._stop():
            raise Stopped
        codes = self._job.exit_codes()  # before the events: what a rank says is written before it exits
        now = time.perf_counter()
        for view, reader in zip(self._views, self._readers, strict=True):
            for event in reader.read():
                view.take(event, now)
                self._on_event(view.plan.rank, event)
            code = codes[view.plan.rank]
            if code is not None and view.exit_code is None:
                view.exit_code, view.exit_s = code, now

    def _pause(self) -> None:
        # Ranks may use every core: look often while phases are short, seldom while steps are timed.
        timing = all(view.reached("steady") for view in self._views if view.leads)
        time.sleep(0.2 if timing else 0.03)

    def _settle(self, seconds: float) -> None:
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline and any(view.exit_code is None for view in self._views):
            time.sleep(0.03)
            self._look()

    def _leave(self, seconds: float) -> Outcome:
        """Every result is there: let the ranks that train exit; the others are ended with the job."""
        deadline = time.perf_counter() + seconds
        leading = [view for view in self._views if view.leads]
        while time.perf_counter() < deadline and any(view.exit_code is None for view in leading):
            time.sleep(0.02)
            self._look()
        return Outcome(None, notes=tuple(note for view in leading if (note := _note(view, seconds))))

    def _give_way(self, seconds: float) -> Outcome:
        """A rank was warned: let every rank that trains save and leave, or fail for want of the others."""
        self._settle(seconds)
        return Outcome(None, preempted=True)

    def _evidence(self) -> list[Evidence]:
        return [
            Evidence(
                rank=view.plan.rank,
                role=view.plan.role,
                exit_code=view.exit_code,
                exit_s=view.exit_s,
                error=view.error,
                log_tail=log_tail(view.plan),
                frozen=self._is_frozen(view.plan.rank),
                finished=view.finished,
            )
            for view in self._views
        ]

    def _is_frozen(self, rank: int) -> bool:
        return isinstance(self._job, ShowsState) and self._job.state(rank) in procfs.FROZEN_STATES

    def _frozen_first(self, blame: Blame) -> Blame:
        frozen = [view.plan.rank for view in self._views if self._is_frozen(view.plan.rank)]
        if not frozen:
            return blame
        reason = f"{blame.reason}; rank {frozen[0]} is stopped by a signal (state T)"
        return replace(blame, rank=frozen[0], reason=reason)

    def _failed(self, blame: Blame) -> Outcome:
        named = self._views[blame.rank] if blame.rank is not None else min(self._views, key=lambda v: v.exit_s or 1e99)
        stacks = [
            f"rank {view.plan.rank} ({view.plan.role}):\n{text}"
            for view in self._views
            if view.exit_code is None and (text := self._job.stacks(view.plan.rank))
        ]
        return Outcome(blame, log_tail(named.plan), "\n\n".join(stacks) or None, noticed_s=self._noticed_s)


def _note(view: RankView, seconds: float) -> str | None:
    """What happened to a rank after its result was on disk, when it was not a clean exit."""
    if view.error:
        return f"rank {view.plan.rank} after its result was written: {view.error.headline}"
    if view.exit_code is None:
        return f"rank {view.plan.rank} had not exited {seconds:g} s after its result was written, and was ended"
    return (
        f"rank {view.plan.rank} exited with code {view.exit_code} after its result was written"
        if view.exit_code
        else None
    )


_COMPILES = b"jit-compiled from PTX"
"""Of TensorFlow's warning where it has no kernels for a GPU's compute capability (gpu_device.cc)."""
_HEAD_BYTES = 1024 * 1024


def compiles_kernels(plan: RankPlan) -> bool:
    """Whether a rank's log says that TensorFlow compiles its kernels for the GPU it found."""
    try:
        with (Path(plan.directory) / LOG).open("rb") as file:
            return _COMPILES in file.read(_HEAD_BYTES)
    except FileNotFoundError:
        return False


def log_tail(plan: RankPlan, lines: int = LOG_LINES) -> str:
    """The last lines of a rank's log; empty where it never began one."""
    path = Path(plan.directory) / LOG
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LOG_BYTES))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
