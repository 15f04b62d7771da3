"""How ranks start: a launcher places a plan and gives back a job that can be watched and ended."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from tfscale.suite.cluster import Cluster
from tfscale.suite.launchers import procfs
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

    def oom_kills(self) -> int:
        """How many processes the kernels of the job's hosts have killed for memory so far."""
        return procfs.oom_kills()

    @abstractmethod
    def end(self, grace_s: float = 2.0) -> None:
        """End every process of the job: SIGTERM, then SIGKILL to the process groups; returns when all are gone."""


@dataclass(frozen=True)
class Host:
    """A host of a case, as its ranks and their peers need it."""

    address: str = "127.0.0.1"
    """Where ranks of other hosts reach its servers: an IPv4 or IPv6 address or a name, without a port."""
    cores: tuple[int, ...] = ()
    """Cores for its ranks; empty: those of the machine that the harness runs on."""
    network_namespace: str | None = None
    gpus: tuple[str, ...] | None = None
    """CUDA_VISIBLE_DEVICES entries to hand out; None: those of the machine that the harness runs on."""
    ports: Callable[[int], list[int]] | None = None
    """Finds so many free ports on the host; None: as on the machine that the harness runs on."""


@dataclass(frozen=True)
class Offer:
    """What every host of a launcher has: the least of them, as pruning and the sharing out of cores need it."""

    cores: int
    gpus: int
    kind: Literal["cpu", "gpu", "tpu"]
    tpus: int | None = 0
    """None where nobody knows."""


@dataclass(frozen=True)
class HandedOver:
    """A run that a scheduler is to start where its ranks will be."""

    name: str
    """Of the suite."""
    command: Sequence[str]
    """Runs it, all but `--results` and `--only`."""
    only: str | None
    """Which cases of the suite."""
    results: Path
    most_hosts: int
    case_ids: Sequence[str]


@dataclass(frozen=True)
class Submitted:
    """A run that is a scheduler's now."""

    scheduler: str
    job: str


class Launcher(ABC):
    """Starts ranks. Use as a context manager: leaving it ends whatever it keeps running between jobs."""

    name: ClassVar[str]
    elsewhere: ClassVar[bool] = False
    """Whether ranks run on hosts that the harness's own machine tells nothing of."""
    shares: ClassVar[bool] = False
    """Whether several of them may start ranks at the same time, each on its part of the machine (`cluster.beside`)."""

    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        """The launcher as a suite's `cluster` describes it. Raises ValueError where that is not enough."""
        return cls()

    @classmethod
    def hand_over(cls, cluster: Cluster, run: HandedOver) -> Submitted | None:
        """Give the whole run to a scheduler; None: it is run here and now. Raises LaunchError where it is refused."""
        return None

    @classmethod
    def refuses(cls, case: Case) -> str | None:
        """Why this launcher cannot place `case` at all, or None; asked while a suite is pruned, so it starts nothing."""
        return None

    @classmethod
    def cores_of_a_host(cls, case: Case, cores: int) -> int:
        """Cores that each host of `case` has, where the machine of the harness has `cores`."""
        return cores

    def offer(self, cluster: Cluster, most_hosts: int) -> Offer | None:
        """What each of the first `most_hosts` hosts has, asked of them; None: what the harness's machine has.

        Raises LaunchError where they do not answer.
        """
        return None

    def environments(self) -> list[dict[str, Any]]:
        """The environment of each host, captured there; empty: that of the harness's machine is theirs."""
        return []

    def watches(self, plans: Sequence[RankPlan]) -> str | None:
        """Why counters sampled beside the harness would tell nothing of these ranks; None where they do."""
        return None

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
