"""One lab: built, used, removed. Its namespaces carry the owner's name, so that what a crash leaves can be found."""

import itertools
import os
from pathlib import Path
from typing import Self

from tfscale.suite.launchers import procfs
from tfscale.suite.monitors.procfiles import interfaces
from tfscale.suite.netlab import namespaces
from tfscale.suite.netlab.commands import LabError, run
from tfscale.suite.netlab.layout import (
    LabHost,
    LabName,
    Layout,
    delay_probe,
    lay_out,
    link_state,
    namespace_commands,
    network_commands,
    remove_command,
)
from tfscale.suite.topology import Topology

CONGESTION_CONTROLS = ("cubic", "reno")
"""Of TCP in the hosts: the first that may be chosen, so that labs on machines with other defaults are alike. cubic is what
most clusters use; a machine whose own default is another may not allow it in a namespace, which it always does for reno."""
_TCP = Path("/proc/sys/net/ipv4")
_ADDRESSES = Path("/proc/sys/net/ipv6/conf/default/addr_gen_mode")
_NO_ADDRESSES = "1"
"""IN6_ADDR_GEN_MODE_NONE of the kernel's include/uapi/linux/if_link.h."""

_numbers = itertools.count(1)


def new_name() -> LabName:
    """A name that no other lab has had: this process and a number."""
    started = procfs.started(os.getpid())
    assert started is not None  # this very process is there
    return LabName(os.getpid(), started, next(_numbers))


class Lab:
    """The network of `topology`. As a context manager it is built on entering and removed on leaving.

    `congestion_control` is what TCP uses in its hosts, known once it is built.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.layout: Layout = lay_out(topology, new_name())
        self.congestion_control: str | None = None

    @property
    def hosts(self) -> tuple[LabHost, ...]:
        return self.layout.hosts

    def build(self) -> None:
        """Make everything. Raises LabError, and nothing is left then, where this kernel or this user cannot."""
        if reason := namespaces.refusal():
            raise LabError(reason)
        try:
            for command in namespace_commands(self.layout):
                run(command)
            for name in self.layout.namespaces:
                self.congestion_control = namespaces.inside(name, lambda: settle(self.layout.window))
            if self.layout.delayed:
                self._check_delay()
            for command in network_commands(self.layout):
                run(command)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove what there is of it; again does nothing. Raises LabError where something stays."""
        failed = remove_namespaces([name for name in self.layout.namespaces if (namespaces.RUN / name).exists()])
        if failed:
            raise LabError("; ".join(failed.values()))

    @property
    def whole(self) -> bool:
        """Whether all its namespaces are still there."""
        return all((namespaces.RUN / name).exists() for name in self.layout.namespaces)

    def cut(self, host: int) -> None:
        """Pull the cable of the host at that place of the topology: what it sends and what is sent to it is lost."""
        run(link_state(self.layout, host, "down"))

    def mend(self, host: int) -> None:
        """Plug the cable of the host in again."""
        run(link_state(self.layout, host, "up"))

    def counters(self) -> dict[str, float]:
        """Counters of every switch port since the lab was built: `h0/rx_bytes` is what host 0 has sent, with headers.

        `up0/tx_bytes` is what left rack 0 for the core.
        """
        found = interfaces(namespaces.inside(self.layout.name.switch, Path("/proc/thread-self/net/dev").read_text))
        ports = {link.far.interface for link in self.layout.links}
        ports |= {end.interface for link in self.layout.uplinks for end in (link.near, link.far)}
        return {key: value for key, value in found.items() if value is not None and key.partition("/")[0] in ports}

    def __enter__(self) -> Self:
        self.build()
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def _check_delay(self) -> None:
        try:
            run(delay_probe(self.layout))
        except LabError as error:
            raise LabError(
                f"topology {self.topology.name or 'without a name'} has delay_ms, and this kernel has no netem module "
                f"(sch_netem) to delay packets with: set delay_ms: 0, or use a kernel that has it ({error})"
            ) from error


def remove_namespaces(names: list[str]) -> dict[str, str]:
    """Remove each of `names`; name -> why of those that stay."""
    failed = {}
    for name in names:
        try:
            run(remove_command(name))
        except LabError as error:
            if (namespaces.RUN / name).exists():  # else somebody else was faster
                failed[name] = str(error)
    return failed


def settle(window: int) -> str:
    """Settings of the calling thread's namespace; its congestion control. Interfaces that come later stay silent.

    An interface with an IPv6 address of its own talks about it, which would be counted as somebody's traffic. `window` is the
    most that a connection may have sent and not acknowledged, bytes.
    """
    (_TCP / "tcp_wmem").write_text(f"4096 16384 {window}")  # least, first and most; only the last is not the default
    if _ADDRESSES.exists():
        _ADDRESSES.write_text(_NO_ADDRESSES)
    for wanted in CONGESTION_CONTROLS:
        try:
            (_TCP / "tcp_congestion_control").write_text(wanted)
            break
        except OSError:  # the kernel lacks it, or it is not among those allowed here
            continue
    return (_TCP / "tcp_congestion_control").read_text().strip()
