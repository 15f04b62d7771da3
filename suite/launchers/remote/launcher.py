"""Ranks on other hosts: an agent on each, reached as a subclass says. The plan is made here; a host only places it."""

import itertools
import os
import secrets
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from tfscale.suite import environment
from tfscale.suite.cluster import Cluster, HostEntry
from tfscale.suite.launchers.base import Host, Job, Launcher, Offer
from tfscale.suite.launchers.environment import VISIBLE
from tfscale.suite.launchers.errors import LaunchError
from tfscale.suite.launchers.netlab import deal
from tfscale.suite.launchers.remote import network
from tfscale.suite.launchers.remote.job import Placed, RemoteJob
from tfscale.suite.launchers.remote.link import SILENCE_S, Channel, Event, Link
from tfscale.suite.launchers.remote.preflight import preflight
from tfscale.suite.plan import RankPlan
from tfscale.suite.spec import Case, recordable

ASK_S = 30.0
"""How long an agent may take for what it answers from memory or the kernel."""
START_S = 400.0
"""How long a host may take to import TensorFlow and try a fork with its GPUs."""
_AT_ONCE = 64


@dataclass(eq=False)
class Connected:
    """A host that has answered."""

    entry: HostEntry
    link: Link
    facts: dict[str, Any]
    cores: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()
    taken: set[int] = field(default_factory=set)

    @property
    def machine(self) -> str:
        return str(self.facts["identity"]["boot"])

    @property
    def network(self) -> str:
        return str(self.facts["identity"]["network"])


class RemoteLauncher(Launcher):
    """Base of launchers that reach one agent a host. A subclass says which hosts there are and opens the channels."""

    name: ClassVar[str]
    elsewhere: ClassVar[bool] = True

    def __init__(self, cluster: Cluster, *, worker: str | None = None, silence_s: float = SILENCE_S) -> None:
        """`worker` replaces the module that ranks run, with one that needs no TensorFlow."""
        self.cluster, self._worker, self._silence_s = cluster, worker, silence_s
        self._hosts: list[Connected] = []
        self._jobs: dict[int, RemoteJob] = {}
        self._numbers = itertools.count()

    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        return cls(cluster)

    @classmethod
    def refuses(cls, case: Case) -> str | None:
        if case.strategy == "independent" and case.hosts > 1:
            return "independent over several hosts: its replicas start together by a file that only one host maps"
        return None

    @abstractmethod
    def entries(self) -> list[HostEntry]:
        """All hosts, in the order of the ranks. Raises LaunchError where they are not known."""

    @abstractmethod
    def open(self, entries: Sequence[HostEntry]) -> list[Channel]:
        """Channels to the agents of `entries`. Raises LaunchError."""

    def reopened(self, lost: Sequence[int]) -> Sequence[int]:
        """Numbers of the hosts that have to be called again where those in `lost` are: the same, where each has its own
        process."""
        return lost

    def effective(self) -> dict[str, Any]:
        """What a record says of how its ranks were placed."""
        return {"launcher": self.name}

    def agent_argv(self) -> list[str]:
        """The command that runs an agent on a host."""
        import sys

        return [*self.cluster.prefix, self.cluster.python or sys.executable, "-m", "tfscale.suite.launchers.agent"]

    def offer(self, cluster: Cluster, most_hosts: int) -> Offer:
        self._connect(most_hosts)
        each = self._hosts[:most_hosts]
        return Offer(
            cores=min(len(host.cores) for host in each),
            gpus=min(len(host.gpus) for host in each),
            kind=each[0].facts["kind"],
            tpus=min(host.facts["tpus"] for host in each),
        )

    def environments(self) -> list[dict[str, Any]]:
        return _together(lambda host: host.link.ask("environment", ASK_S), self._hosts)

    def watches(self, plans: Sequence[RankPlan]) -> str | None:
        here = network.identity()["boot"]
        hosts = self._hosts_of(plans[0].case)
        away = sorted({hosts[plan.host].entry.target for plan in plans if hosts[plan.host].machine != here})
        return f"counters are sampled on the harness's machine, and {', '.join(away[:4])} is another" if away else None

    def hosts(self, case: Case) -> list[Host]:
        self._connect(max(places(case)) + 1)
        chosen = self._hosts_of(case)
        addresses = addresses_of(chosen, self.cluster)
        for host in chosen:
            host.taken.clear()
        return [
            Host(address, host.cores, gpus=host.gpus, ports=lambda count, host=host: self._free_ports(host, count))  # type: ignore[misc]
            for address, host in zip(addresses, chosen, strict=True)
        ]

    def start(self, plans: Sequence[RankPlan]) -> Job:
        """Start all ranks, after every host has shown that it reaches the others. Raises LaunchError; nothing runs then."""
        used = sorted({plan.host for plan in plans})
        placed_on = self._hosts_of(plans[0].case)
        hosts = {number: placed_on[number] for number in used}
        if len(hosts) > 1:
            preflight({number: host.link for number, host in hosts.items()}, plans)
        here = network.identity()["boot"]
        placed = [Placed(plan, hosts[plan.host].link, hosts[plan.host].machine == here) for plan in plans]
        job = RemoteJob(next(self._numbers), placed)
        self._jobs = {number: other for number, other in self._jobs.items() if not other.over}
        self._jobs[job.number] = job
        try:
            self._start_on(hosts, plans, job)
        except BaseException:
            job.end(0.0)
            raise
        return job

    def close(self) -> None:
        hosts, self._hosts = self._hosts, []
        _together(lambda host: host.link.close(), hosts)

    def _start_on(self, hosts: dict[int, Connected], plans: Sequence[RankPlan], job: RemoteJob) -> None:
        documents = {n: [p.model_dump(mode="json") for p in plans if p.host == n] for n in hosts}
        marker = _marker(Path(plans[0].trial_directory))
        for plan in plans:
            Path(plan.directory).mkdir(parents=True, exist_ok=True)
        try:
            self._ask_to_start(hosts, documents, marker, job)
        finally:
            Path(marker["path"]).unlink(missing_ok=True)

    def _ask_to_start(
        self, hosts: dict[int, Connected], documents: dict[int, list[Any]], marker: dict[str, str], job: RemoteJob
    ) -> None:
        _all([hosts[n].link.send("warm", plans=documents[n]) for n in hosts], START_S)
        common = {"job": job.number, "marker": marker, "shared": self.cluster.shared_disk}
        asked = [hosts[n].link.send("start", plans=documents[n], **common) for n in hosts]
        for number, answer in zip(hosts, _all(asked, START_S), strict=True):
            job.begun(hosts[number].link, answer["oom_kills"])

    def _hosts_of(self, case: Case) -> list[Connected]:
        """The hosts of a case, in the order of its ranks."""
        return [self._hosts[place] for place in places(case)]

    def _free_ports(self, host: Connected, count: int) -> list[int]:
        """Ports that are free on the host, and not promised to another host of the same network."""
        near = [other for other in self._hosts if other.network == host.network]
        taken = sorted(set().union(*(other.taken for other in near)))
        found: list[int] = host.link.ask("ports", ASK_S, count=count, taken=taken)["ports"]
        host.taken.update(found)
        return found

    def _connect(self, count: int) -> None:
        """Have the first `count` hosts answer: those that were lost are called again."""
        entries = self.entries()
        if count > len(entries):
            names = ", ".join(entry.target for entry in entries[:8])
            raise LaunchError(f"{count} hosts are needed, and launcher {self.name} has {len(entries)} ({names})")
        lost = [number for number, host in enumerate(self._hosts) if host.link.lost is not None]
        missing = [*(self.reopened(lost) if lost else ()), *range(len(self._hosts), count)]
        if not missing:
            return
        for number in missing:
            if number < len(self._hosts):
                self._hosts[number].link.close()
        called = self._called([entries[number] for number in missing])
        known = {**dict(enumerate(self._hosts)), **dict(zip(missing, called, strict=True))}
        self._hosts = [known[number] for number in sorted(known)]
        _check_software(self._hosts)
        _share_out(self._hosts)

    def _called(self, entries: Sequence[HostEntry]) -> list[Connected]:
        channels = self.open(entries)
        links = [
            Link(entry.target, channel, self._take, self._silence_s)
            for entry, channel in zip(entries, channels, strict=True)
        ]
        try:
            facts = _all([link.send("hello", **self._hello()) for link in links], self.cluster.connect_s)
            for entry, told in zip(entries, facts, strict=True):
                self.check_placed(entry, told)
        except BaseException:
            for link in links:
                link.close()
            raise
        return [Connected(entry, link, told) for entry, link, told in zip(entries, links, facts, strict=True)]

    def check_placed(self, entry: HostEntry, facts: dict[str, Any]) -> None:
        """Raise LaunchError where the agent of `entry` says that it is somewhere else."""

    def _hello(self) -> dict[str, Any]:
        wanted = {*self.cluster.pass_env, "PYTHONPATH"} if self._worker else {*self.cluster.pass_env}
        sent = {k: v for k, v in os.environ.items() if (recordable(k) and k != VISIBLE) or k in wanted}
        return {
            "environment": sent,
            "effective": self.effective(),
            "accelerator": self.cluster.accelerator,
            "worker": self._worker,
            "bare": self._worker is not None,
            "silence_s": 2 * self._silence_s,
        }

    def _take(self, link: Link, event: Event) -> None:
        if (job := self._jobs.get(event["job"])) is not None:
            job.take(link, event)


def places(case: Case) -> list[int]:
    """Which of the launcher's hosts a case takes, in the order of its ranks: the first ones, or where its topology, whose
    hosts they are in their order, has racks to go by."""
    if case.topology is None:
        return list(range(case.hosts))
    return list(case.topology.order(case.order, case.hosts))


def addresses_of(hosts: Sequence[Connected], cluster: Cluster) -> list[str]:
    """Where each host's servers are reached by the others, checked: no loopback between machines, no address twice.

    Hosts of one network namespace use loopback. Raises LaunchError naming the host.
    """
    if len({host.network for host in hosts}) == 1 and cluster.network is None:
        return [host.entry.address or "127.0.0.1" for host in hosts]
    found: dict[str, str] = {}
    for host in hosts:
        address = _address(host, cluster.network)
        if network.is_loopback(address):
            raise LaunchError(
                f"host {host.entry.target}: {address} means every host itself, and the ranks are on {len(hosts)} of "
                "them; give it an `address`, or set cluster.network"
            )
        if address in found and len({h.network for h in hosts}) == len(hosts):
            raise LaunchError(f"hosts {found[address]} and {host.entry.target} have the same address {address}")
        found[address] = host.entry.target
    return [_address(host, cluster.network) for host in hosts]


def _address(host: Connected, wanted: str | None) -> str:
    facts = host.facts
    if host.entry.address is not None:
        return host.entry.address
    try:
        if wanted is not None:
            return network.chosen(wanted, facts["interfaces"])
    except ValueError as error:
        raise LaunchError(f"host {host.entry.target}: {error}") from error
    address = facts["reached_at"] or facts["default_address"]
    if address is None or (network.is_loopback(address) and facts["default_address"]):
        address = facts["default_address"] or facts["host_name"]
    return str(address)


def _share_out(hosts: Sequence[Connected]) -> None:
    """Cores and GPUs of each host; hosts that are one machine (containers, test nodes) share what it has."""
    groups: dict[tuple[Any, ...], list[Connected]] = {}
    for host in hosts:
        groups.setdefault((host.machine, tuple(host.facts["cores"])), []).append(host)
    for (_, cores), members in groups.items():
        shares = deal(cores, len(members))
        for number, host in enumerate(members):
            host.cores = shares[number]
            host.gpus = tuple(host.facts["gpus"][number :: len(members)])


def _check_software(hosts: Sequence[Connected]) -> None:
    """Raises LaunchError where hosts do not have the same software, or another tfscale than the harness."""
    wanted = {"tfscale": environment.installed("tfscale")}
    for host in hosts:
        for name, ours in {**hosts[0].facts["software"], **wanted}.items():
            theirs = host.facts["software"].get(name)
            if theirs != ours:
                whose = "the harness" if name in wanted else hosts[0].entry.target
                raise LaunchError(f"host {host.entry.target} has {name} {theirs}, {whose} has {ours}: install the same")


def _marker(trial: Path) -> dict[str, str]:
    """A file beside the ranks' folders, to see who shares the disk that it is on."""
    trial.mkdir(parents=True, exist_ok=True)
    marker = {"path": str(trial.resolve() / ".seen"), "text": secrets.token_hex(16)}
    Path(marker["path"]).write_text(marker["text"])
    return marker


def _all(asked: Sequence[Any], timeout_s: float) -> list[dict[str, Any]]:
    """The answers of all. Raises the first failure, after none is awaited any more."""
    deadline = time.monotonic() + timeout_s
    answers, failure = [], None
    for one in asked:
        try:
            answers.append(one.result(max(0.1, deadline - time.monotonic())))
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return answers


def _together(work: Callable[[Connected], Any], hosts: Sequence[Connected]) -> list[Any]:
    with ThreadPoolExecutor(max(1, min(_AT_ONCE, len(hosts)))) as pool:
        return list(pool.map(work, hosts))
