"""How ranks start: a launcher places a plan and gives back a job that can be watched and ended."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from tfscale.suite.plan import RankPlan


class Job(ABC):
    """The processes of one launch."""

    @abstractmethod
    def exit_codes(self) -> list[int | None]:
        """By rank: None while it runs, else its exit code (negative: the signal that ended it). Never blocks."""

    @abstractmethod
    def stacks(self, rank: int) -> str | None:
        """A dump of what the rank's threads are doing, or None where it cannot be had."""

    @abstractmethod
    def end(self, grace_s: float = 2.0) -> None:
        """End every process of the job: SIGTERM, then SIGKILL to the process groups; returns when all are gone."""


class Launcher(ABC):
    """Starts ranks. Use as a context manager: leaving it ends whatever it keeps running between jobs."""

    name: ClassVar[str]

    @abstractmethod
    def start(self, plans: Sequence[RankPlan]) -> Job:
        """Start one process a plan, each with its log in `<plan.directory>/log.txt`."""

    def close(self) -> None:
        """End helper processes."""

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
