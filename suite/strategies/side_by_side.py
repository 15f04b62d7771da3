"""The session of replicas that run side by side: each on its own, started together, stopped by one of them."""

from typing import Any

from tfscale.suite.control import Control
from tfscale.suite.strategies.base import TrainRunner
from tfscale.suite.strategies.synchronous import SynchronousPending, SynchronousRunner, SynchronousSession
from tfscale.suite.timing.protocol import Fetched
from tfscale.suite.training.feed import Feed
from tfscale.suite.training.step import TrainStep


class SideBySideSession(SynchronousSession):
    """One replica of its own, and the control file that it shares with the others."""

    def __init__(self, strategy: Any, first_replica: int, control: Control) -> None:
        super().__init__(strategy, first_replica)
        self._control = control

    def runner(self, replica_step: TrainStep, feed: Feed, steps_per_call: int) -> TrainRunner:
        feed.place(self.devices)
        inner = SynchronousRunner(self, replica_step, feed, steps_per_call)
        return SideBySideRunner(inner, self._control)

    def close(self) -> None:
        """Nobody leaves before all have ended: a replica alone on the machine would run faster."""
        self._control.barrier()


class SideBySideRunner:
    """Dispatches on its own replica; control comes from the file. Counts are of this replica alone."""

    def __init__(self, inner: SynchronousRunner, control: Control) -> None:
        self._inner = inner
        self._control = control
        self._started = False

    def trace(self) -> None:
        self._inner.trace()

    def tracings(self) -> int:
        return self._inner.tracings()

    def clusters(self) -> int:
        return self._inner.clusters()

    def dispatch(self, steps: int, control: float) -> "SideBySidePending":
        if not self._started:  # after tracing, which takes longer in one process than in another
            self._control.barrier()
            self._started = True
        number = self._control.dispatched(control)
        return SideBySidePending(self._inner.dispatch(steps, 0.0), self._control, number)


class SideBySidePending:
    def __init__(self, inner: SynchronousPending, control: Control, number: int) -> None:
        self._inner = inner
        self._control = control
        self._number = number

    def fetch(self) -> Fetched:
        own = self._inner.fetch()
        return Fetched(
            step=own.step,
            samples=own.samples,
            loss=own.loss,
            skipped=own.skipped,
            control=self._control.value(self._number),
        )
