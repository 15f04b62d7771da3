"""The RDMA fabric as one host sees it: its ports are judged, what depends on taste is shown.

Only this host's ports and the other ends of their links are asked for (direct route 0, one hop): a sweep of a whole
fabric takes minutes and needs rights. Read through Sources, so that a bundle or a simulated fabric answers as well.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfscale.suite.environment import cards, interfaces, limits
from tfscale.suite.environment.reading import integer
from tfscale.suite.fabric import checks, outputs
from tfscale.suite.monitors import rdma
from tfscale.suite.record import Check
from tfscale.suite.sources.base import Source, Sources

_PEER_MEMORY = ("nvidia_peermem", "nv_peer_mem")
"""The driver's module, and the older one from Mellanox; newer kernels do the same with DMA-BUF and need neither."""


@dataclass(frozen=True)
class Examined:
    """What was found. Both are empty on a host without RDMA."""

    checks: tuple[Check, ...] = ()
    shown: dict[str, Any] = field(default_factory=dict)
    """`ports` (GIDs, RoCE version, rate, state), `peer_memory`, `distance` (GPU -> adapter -> PIX ... SYS), `unread`."""


@dataclass(frozen=True)
class _Port:
    device: str
    number: str
    roce: bool

    @property
    def name(self) -> str:
        return f"{self.device}/{self.number}"

    @property
    def arguments(self) -> str:
        return f"-C {shlex.quote(self.device)} -P {self.number}"


def examine(sources: Sources) -> Examined:
    """Judge and show every RDMA port of the host."""
    ports = _ports(sources)
    if not ports:
        return Examined()
    unread: dict[str, str] = {}
    links = {port: _links(sources.commands, port, unread) for port in ports if not port.roce}
    found: list[Check | None] = []
    if links:
        found.append(checks.link([link for ends in links.values() for link in ends]))
    found.append(checks.errors(_errors(sources, ports, unread) | _peers(sources.commands, links, unread)))
    found.append(checks.mtu(*_mtus(sources, ports, unread)))
    found.append(checks.memlock(limits.resource_limits(sources.files).get("memlock_bytes")))
    shown = {
        "ports": {port.name: rdma.port_facts(sources.files, port.device, port.number) for port in ports},
        "peer_memory": _peer_memory(sources.files),
        "distance": _distance(sources),
        "unread": unread,
    }
    return Examined(tuple(check for check in found if check is not None), shown)


def _ports(sources: Sources) -> list[_Port]:
    """The ports in /sys; where it shows none, as in some containers, those that ibstat knows."""
    found = rdma.ports(sources.files)
    if found:
        folder = rdma.INFINIBAND
        return [_Port(d, p, rdma.is_roce(sources.files, f"{folder}/{d}/ports/{p}")) for d, p in found]
    adapters = outputs.ibstat(_stdout(sources.commands, "ibstat", {}))
    return [
        _Port(adapter.name, str(number), port.get("Link layer") == "Ethernet")
        for adapter in adapters
        for number, port in adapter.ports.items()
        if number
    ]


def _stdout(commands: Source, line: str, unread: dict[str, str], good: tuple[int, ...] = (0,)) -> str:
    """What a command printed; "" and a word in `unread` where it could not be run or failed."""
    answer = commands.ask(line)
    if not answer.ok:
        unread[line] = answer.reason or answer.state
        return ""
    if answer.value["rc"] not in good:
        last = (str(answer.value["stderr"]).strip().splitlines() or ["no message"])[-1]
        unread[line] = f"code {answer.value['rc']}: {last}"
        return ""
    return str(answer.value["stdout"])


def _links(commands: Source, port: _Port, unread: dict[str, str]) -> list[outputs.Link]:
    return outputs.iblinkinfo(_stdout(commands, f"iblinkinfo -l {port.arguments} -D 0 -n 1", unread))


def _errors(sources: Sources, ports: list[_Port], unread: dict[str, str]) -> dict[str, dict[str, int]]:
    """Error counters of each port from /sys; where it has none, from perfquery."""
    found = {}
    for port in ports:
        folder = f"{rdma.INFINIBAND}/{port.device}/ports/{port.number}/counters"
        read = {tool: integer(sources.files, f"{folder}/{file}") for file, tool in checks.ERRORS.items()}
        counters = {tool: int(answer.value) for tool, answer in read.items() if answer.ok}
        if not counters and not port.roce:
            told = outputs.perfquery(_stdout(sources.commands, f"perfquery {port.arguments}", unread))
            counters = {tool: told[tool] for tool in checks.ERRORS.values() if tool in told}
        if counters:
            found[port.name] = counters
    return found


def _peers(
    commands: Source, links: Mapping[_Port, list[outputs.Link]], unread: dict[str, str]
) -> dict[str, dict[str, int]]:
    """Errors at the other ends: what a cable spoils is counted where it arrives. Answered by a subnet manager only."""
    found: dict[str, dict[str, int]] = {}
    for port, ends in links.items():
        line = f"ibqueryerrors {port.arguments} -D 0,{port.number}"
        told = outputs.ibqueryerrors(_stdout(commands, line, unread, good=(0, 1))) if ends else []
        for link in ends:
            found |= checks.of_peer(told, link)
    return found


def _mtus(
    sources: Sources, ports: list[_Port], unread: dict[str, str]
) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    infiniband, roce = {}, {}
    for port in ports:
        if port.roce:
            size = rdma.port_facts(sources.files, port.device, port.number)["mtu"]
            if size is not None:
                roce[port.name] = int(size)
            continue
        line = f"smpquery {port.arguments} -D portinfo 0 {port.number}"
        told = outputs.dotted(_stdout(sources.commands, line, unread))
        pair = told.get("NeighborMTU", ""), told.get("MtuCap", "")
        if all(value.isdecimal() for value in pair):
            infiniband[port.name] = (int(pair[0]), int(pair[1]))
    return infiniband, roce


def _peer_memory(files: Source) -> dict[str, Any]:
    """Which module lets adapters read GPU memory; none loaded does not mean that it cannot be read (DMA-BUF)."""
    loaded = [name for name in _PEER_MEMORY if files.ask(f"sys/module/{name}").ok]
    return {"module": loaded[0] if loaded else None, "looked_for": list(_PEER_MEMORY)}


def _distance(sources: Sources) -> Mapping[str, Any] | None:
    """GPU -> adapter -> how they reach each other; None without a GPU."""
    devices = interfaces.rdma_devices(sources.files)
    table = cards.topology(sources, cards.gpus(sources), devices)
    if table is None:
        return None
    names = {device["name"] for device in devices}
    rows = {gpu: {nic: how for nic, how in row.items() if nic in names} for gpu, row in table["links"].items()}
    return {"source": table["source"], "links": {gpu: row for gpu, row in rows.items() if gpu.startswith("GPU")}}
