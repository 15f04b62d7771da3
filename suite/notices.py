"""What a run tells while it goes on, for whoever shows progress; and how long it may still take."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tfscale.suite.spec import Case, Measure

Kind = Literal[
    "case_started",
    "trial_started",
    "event",
    "port_retry",
    "trial_retry",
    "trial_done",
    "trial_failed",
    "pilot_started",
    "profile_started",
    "profile_retry",
    "profile_done",
    "profile_failed",
    "case_done",
    "training_started",
    "training_done",
    "training_failed",
    "recovery_started",
    "recovery_done",
    "recovery_failed",
    "stopping",
]


@dataclass(frozen=True)
class Notice:
    """One thing that happened. `detail` holds `event` and `rank`, `record`, `failure`, `retry`, `attempt` or `reason`."""

    kind: Kind
    case: Case
    trial: int | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    left_s: float | None = None
    """Estimate of the seconds until the run is done."""


OnNotice = Callable[[Notice], None]


def ignore(notice: Notice) -> None:
    """Tell nobody."""


class Remaining:
    """Estimates the seconds left: launches still to come, each as long as those before were on average.

    Before the first has ended, a launch is taken to last its timed budget and what start-up takes at least.
    """

    START_UP_S = 10.0

    def __init__(self, launches: int, measure: Measure, clock: Callable[[], float] = time.monotonic) -> None:
        self._left, self._clock = launches, clock
        self._guess_s = measure.budget_s + self.START_UP_S
        self._spent_s, self._done = 0.0, 0
        self._begun: list[float] = []
        self.lanes = 1
        """Launches that go on at the same time."""

    def begin(self) -> None:
        self._begun.append(self._clock())

    def end(self) -> None:
        # Whichever of several has ended: only the sum of their times counts, and that is the same.
        self._spent_s += self._clock() - self._begun.pop(0)
        self._done += 1
        self._left = max(0, self._left - 1)

    def skip(self, launches: int) -> None:
        """Launches that will not take place (negative: more than planned)."""
        self._left = max(0, self._left - launches)

    @property
    def seconds(self) -> float:
        each = self._spent_s / self._done if self._done else self._guess_s
        running = sum(min(each, self._clock() - begun) for begun in list(self._begun))
        return max(0.0, self._left * each - running) / self.lanes
