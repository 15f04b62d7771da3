"""Network interfaces and TCP: bytes, packets, drops, errors, segments sent again.

All interfaces that are up when sampling starts are taken, `lo` too: ranks of one host talk over it, and its fact
`loopback` says what it is. A byte can be counted more than once, on a bridge and on its ports for example: `master`
and `physical` tell. Counters are those of this process's network namespace; where the ranks have namespaces of their
own, those of theirs, `host0/eth0` and so on, and none of this one's. What an RDMA adapter moves by itself does not appear
here; the rdma monitor has it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from tfscale.suite.monitors import procfiles
from tfscale.suite.monitors.base import Column
from tfscale.suite.monitors.grouped import Group, Grouped, Values, file_group, number
from tfscale.suite.sources.base import Source
from tfscale.suite.sources.namespaces import NamespaceFiles

NET = "sys/class/net"
_UP = 0x1
"""IFF_UP of the kernel's include/uapi/linux/if.h."""
_LOOPBACK = "772"
"""ARPHRD_LOOPBACK of include/uapi/linux/if_arp.h."""
_FAST = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets")
_SLOW = ("rx_drops", "tx_drops", "rx_errors", "tx_errors")
_RETRANSMITS = Column("tcp_retransmits", "segments", "counter", slow=True)
_ETHERNET = "eth0"


class Network(Grouped):
    """Counters of every interface, and TCP's retransmissions."""

    name: ClassVar[str] = "network"

    def groups(self) -> Sequence[Group]:
        if self.target.namespaces:
            return [group for host, name in self.target.namespaces.items() for group in in_namespace(host, name)]
        files = self.sources.files
        up = [name for name in files.under(NET) if is_up(files, name)]
        return [
            file_group(files, "proc/net/dev", columns_of(up), procfiles.interfaces),
            file_group(files, "proc/net/snmp", [_RETRANSMITS], procfiles.tcp),
        ]

    def facts(self) -> dict[str, Any]:
        """`interfaces`: what each was when sampling began, those that are down included. Or `namespaces`: host -> name."""
        return self._facts

    @cached_property
    def _facts(self) -> dict[str, Any]:
        if self.target.namespaces:
            return {"namespaces": dict(self.target.namespaces)}
        files = self.sources.files
        return {"interfaces": {name: interface(files, name) for name in files.under(NET) if _is_interface(files, name)}}


def columns_of(interfaces: Sequence[str]) -> list[Column]:
    """All columns of some interfaces."""
    return [
        Column(name, "B" if name.endswith("bytes") else "packets", "counter", interface, slow=name in _SLOW)
        for interface in interfaces
        for name in (*_FAST, *_SLOW)
    ]


def in_namespace(host: str, namespace: str) -> list[Group]:
    """The counters of one host's namespace: `host0/eth0/tx_bytes`, ..., `host0/tcp_retransmits`."""
    files = NamespaceFiles(namespace)
    first = files.ask("proc/net/dev")
    names = (
        dict.fromkeys(key.rpartition("/")[0] for key in procfiles.interfaces(first.value)) if first.ok else [_ETHERNET]
    )

    def of_host(parse: Callable[[str], Values]) -> Callable[[str], Values]:
        return lambda text: {f"{host}/{key}": value for key, value in parse(text).items()}

    return [
        file_group(
            files, "proc/net/dev", columns_of([f"{host}/{name}" for name in names]), of_host(procfiles.interfaces)
        ),
        file_group(files, "proc/net/snmp", [replace(_RETRANSMITS, device=host)], of_host(procfiles.tcp)),
    ]


def interface(files: Source, name: str) -> dict[str, Any]:
    """Facts of one interface. `speed_mbit` is None where the link is down or has none (-1 or EINVAL, by driver)."""
    speed = number(str(files.ask(f"{NET}/{name}/speed").value))
    master = files.ask(f"{NET}/{name}/master")
    return {
        "speed_mbit": speed if speed is not None and speed > 0 else None,
        "mtu": number(str(files.ask(f"{NET}/{name}/mtu").value)),
        "state": files.ask(f"{NET}/{name}/operstate").value,
        "loopback": files.ask(f"{NET}/{name}/type").value == _LOOPBACK,
        "physical": files.ask(f"{NET}/{name}/device").ok,
        "master": str(master.value).rpartition("/")[2] if master.ok else None,
    }


def is_up(files: Source, name: str) -> bool:
    """Whether the interface is switched on; one that is not carries nothing."""
    flags = str(files.ask(f"{NET}/{name}/flags").value or "")
    try:
        return bool(int(flags, 16) & _UP)
    except ValueError:
        return False


def _is_interface(files: Source, name: str) -> bool:
    # The bonding driver keeps a plain file, bonding_masters, between the interfaces.
    return files.ask(f"{NET}/{name}/flags").ok
