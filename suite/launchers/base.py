"""How ranks start: a launcher places a plan and gives back a job that can be watched and ended."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tfscale.suite.plan import RankPlan
from tfscale.suite.spec import Case


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


@dataclass(frozen=True)
class Host:
    """A host of a case, as its ranks and their peers need it."""

    address: str = "127.0.0.1"
    """Where ranks of other hosts reach its servers: an IPv4 address or name, without a port."""
    cores: tuple[int, ...] = ()
    """Cores for its ranks; empty: those of the machine that the harness runs on."""
    network_namespace: str | None = None


class Launcher(ABC):
    """Starts ranks. Use as a context manager: leaving it ends whatever it keeps running between jobs."""

    name: ClassVar[str]

    @classmethod
    def refuses(cls, case: Case) -> str | None:
        """Why this launcher cannot place `case` at all, or None; asked while a suite is pruned, so it starts nothing."""
        return None

    @classmethod
    def cores_of_a_host(cls, case: Case, cores: int) -> int:
        """Cores that each host of `case` has, where the machine of the harness has `cores`."""
        return cores

    def hosts(self, case: Case) -> list[Host]:
        """The hosts of `case` in the order of its ranks, made ready. Raises LaunchError when they cannot be had."""
        return [Host()] * case.hosts

    @abstractmethod
    def start(self, plans: Sequence[RankPlan]) -> Job:
        """Start one process a plan, each with its log in `<plan.directory>/log.txt`."""

    def close(self) -> None:
        """End helper processes."""

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
