"""Ranks on a described network: one machine, a network namespace a host, links with the stated rates between them."""

from collections.abc import Sequence
from typing import Any, ClassVar

from tfscale.suite import environment
from tfscale.suite.launchers.base import Host, Job
from tfscale.suite.launchers.errors import LaunchError
from tfscale.suite.launchers.local import LocalLauncher
from tfscale.suite.netlab import leftovers
from tfscale.suite.netlab.lab import Lab
from tfscale.suite.plan import RankPlan
from tfscale.suite.spec import Case
from tfscale.suite.topology import Topology


class NetlabLauncher(LocalLauncher):
    """Starts ranks as processes of this machine, each in its host's namespace; needs root.

    One lab at a time is kept: the next case with the same links finds it ready.
    """

    name: ClassVar[str] = "netlab"
    shares: ClassVar[bool] = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._lab: Lab | None = None
        self._cleaned = False
        self._cut: int | None = None

    @classmethod
    def refuses(cls, case: Case) -> str | None:
        if case.topology is None:
            return (
                "launcher netlab has no network to build: add `topology: two-racks` (`tfscale list topologies`), or "
                "`topology: {hosts: 2, link: 100Mbit}`, to the case or to cluster"
            )
        if case.strategy == "tpu":
            return "strategy tpu: TPUs are not connected by links that netlab could build"
        if case.collective == "nccl" or case.transport in ("rdma", "gdr"):
            asked = "collective nccl" if case.collective == "nccl" else f"transport {case.transport}"
            return (
                f"{asked}: traffic would go past the links of netlab, which carry TCP between processes of one machine"
            )
        return None

    @classmethod
    def cores_of_a_host(cls, case: Case, cores: int) -> int:
        return max(1, cores // len(case.topology.hosts)) if case.topology is not None else cores

    def hosts(self, case: Case) -> list[Host]:
        """The hosts of `case` in the order of its ranks, on a lab that is built now unless there is one with these links.

        Raises LaunchError where this user or this kernel cannot.
        """
        assert case.topology is not None  # refused before
        lab = self._ready(case.topology)
        cores = deal(environment.host_cores(), len(lab.hosts))
        return [
            Host(lab.hosts[place].address, cores[place], lab.hosts[place].namespace)
            for place in case.topology.order(case.order, case.hosts)
        ]

    def start(self, plans: Sequence[RankPlan]) -> Job:
        if plans[0].accelerator != "cpu":
            raise LaunchError(
                f"netlab does not place {plans[0].accelerator.upper()} ranks: devices of one machine exchange gradients "
                "past its links; set cluster.accelerator: cpu"
            )
        return super().start(plans)

    def told(self) -> dict[str, Any]:
        return {"network": self.name, "congestion_control": self._lab.congestion_control} if self._lab else {}

    def cut(self, case: Case, host: int) -> None:
        """Pull the cable of the host with that number in the job of `case`. Raises LabError."""
        assert self._lab is not None and case.topology is not None  # the case is running on it
        self._cut = case.topology.order(case.order, case.hosts)[host]
        self._lab.cut(self._cut)

    def mend(self) -> None:
        """Plug the cable in again that was pulled. Raises LabError."""
        if self._cut is not None and self._lab is not None:
            self._lab.mend(self._cut)
        self._cut = None

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._drop()

    def _ready(self, topology: Topology) -> Lab:
        if not self._cleaned:
            leftovers.clean()  # what cannot be removed is in nobody's way; `doctor --clean` says why
            self._cleaned = True
        if self._lab is not None and not (self._lab.whole and same_links(self._lab.topology, topology)):
            self._drop()
        if self._lab is None:
            lab = Lab(topology)
            lab.build()
            self._lab = lab
        return self._lab

    def _drop(self) -> None:
        lab, self._lab = self._lab, None
        if lab is not None:
            lab.remove()


def same_links(one: Topology, other: Topology) -> bool:
    """Whether two topologies are the same network, whatever it is called."""
    return one.model_copy(update={"name": ""}) == other.model_copy(update={"name": ""})


def deal(cores: Sequence[int], hosts: int) -> list[tuple[int, ...]]:
    """Cores of each host: dealt out one by one. Where there are more hosts than cores, hosts share: host h has core h mod n."""
    if hosts > len(cores):
        return [(cores[host % len(cores)],) for host in range(hosts)]
    return [tuple(cores[host::hosts]) for host in range(hosts)]
