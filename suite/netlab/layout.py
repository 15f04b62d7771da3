"""From a topology to what has to be built: names, addresses, links, and the commands that make them. Nothing runs here.

Hosts are network namespaces with one interface, `eth0`. All switches are bridges in one more namespace: `rack0`, `rack1`,
..., and `core` where there are several racks. So nothing of the lab shows in the machine's own namespace, and a lab is gone
when its namespaces are.

    host h1: eth0 <-> h1 : rack0 : up0 <-> core0 : core

Each end of a link shapes what it sends, so both directions have their own rate.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tfscale.suite.topology import Topology

SEGMENT = 1514
"""Bytes of a full Ethernet frame, as the shaper counts it: 1500 of IP and 14 of header."""
UNIT_S = 0.5e-3
"""Time on the slowest link that one unit of TCP's may take: large ones hold a shared link up, each costs a trip through the
kernel."""
BURST_S = 1e-3
"""What a link may send at once after a pause, as time on it: long bursts make short messages look free, and a timer of a
busy machine that is later than this costs bandwidth."""
WINDOW = 512 * 1024
"""Bytes that a connection may have under way. More would wait at ports, and acknowledgements behind it: connections with data
both ways then take turns, and get two thirds of a shared link instead of nine tenths."""
QUEUE = 8 * 1024**2
"""What a port holds before it drops: the windows of sixteen connections. With less, TCP would lose packets on every link whose
round trip it has yet to learn, which is microseconds here."""
FASTEST = 10**10
"""Bits per second that a link without a rate is taken for, where a delay asks how much is under way."""
MOST_SEGMENTS = 43
"""Frames of the largest unit that TCP hands down, 64 KiB."""
INTERFACE = "eth0"
NETWORK, PREFIX_LENGTH = "198.18.0", 24
"""RFC 2544 sets this block aside for the benchmarking of network devices; every lab has it for itself."""

Command = tuple[str, ...]

_NAME = re.compile(r"tfs-(?P<pid>[1-9]\d*)-(?P<started>\d+)-(?P<number>\d+)-(?P<part>switch|h\d+)")


@dataclass(frozen=True)
class LabName:
    """Whose lab a namespace belongs to. The owner is told by its process id and when that process started (clock ticks)."""

    pid: int
    started: int
    number: int

    @property
    def prefix(self) -> str:
        return f"tfs-{self.pid}-{self.started}-{self.number}"

    @property
    def switch(self) -> str:
        """The namespace of the bridges."""
        return f"{self.prefix}-switch"

    def host(self, number: int) -> str:
        """The namespace of host `number`."""
        return f"{self.prefix}-h{number}"


def owner_of(namespace: str) -> LabName | None:
    """The lab that `namespace` is named after; None for a name that is not ours."""
    match = _NAME.fullmatch(namespace)
    return LabName(int(match["pid"]), int(match["started"]), int(match["number"])) if match else None


@dataclass(frozen=True)
class End:
    """One end of a link, and how it sends: bits per second (None: as fast as it goes), milliseconds added."""

    namespace: str
    interface: str
    rate: int | None
    delay_ms: float = 0.0


@dataclass(frozen=True)
class Link:
    """A pair of virtual interfaces; `far` lies at a bridge, `near` at a host or at a rack's bridge."""

    near: End
    far: End


@dataclass(frozen=True)
class LabHost:
    """A host by its place in the topology's `hosts`; `rack` is the number of its rack."""

    place: int
    namespace: str
    address: str
    rack: int


@dataclass(frozen=True)
class Layout:
    """A lab on paper. `hosts` and `links` are in the order of the topology's hosts; `uplinks` in that of its racks."""

    name: LabName
    hosts: tuple[LabHost, ...]
    links: tuple[Link, ...]
    uplinks: tuple[Link, ...]
    segments: int | None
    """Frames that TCP may hand down as one unit; None where nothing is shaped."""
    window: int
    """Bytes that a connection may have under way."""

    @property
    def namespaces(self) -> list[str]:
        return [self.name.switch, *(host.namespace for host in self.hosts)]

    @property
    def delayed(self) -> bool:
        return any(link.near.delay_ms for link in self.links)


def lay_out(topology: Topology, name: LabName) -> Layout:
    """The lab of `topology`."""
    racks = list(topology.racks.values())
    hosts = tuple(
        LabHost(place, name.host(place), f"{NETWORK}.{place + 1}", rack)
        for place, rack in enumerate(topology.racks_of(range(len(topology.hosts))))
    )
    links = tuple(
        Link(
            End(host.namespace, INTERFACE, racks[host.rack].link, racks[host.rack].delay_ms),
            End(name.switch, f"h{host.place}", racks[host.rack].link),
        )
        for host in hosts
    )
    uplinks = tuple(
        Link(End(name.switch, f"up{number}", rack.uplink), End(name.switch, f"core{number}", rack.uplink))
        for number, rack in enumerate(racks)
        if len(racks) > 1
    )
    rates = [link.near.rate for link in (*links, *uplinks) if link.near.rate is not None]
    segments = segments_of(min(rates)) if rates else None
    return Layout(name, hosts, links, uplinks, segments, window_bytes(topology))


def segments_of(rate: int) -> int:
    """Frames of one unit: what a link of `rate` bits/s carries in UNIT_S, one at least."""
    return max(1, min(MOST_SEGMENTS, int(rate * UNIT_S / 8 / SEGMENT)))


def burst_bytes(rate: int, segments: int) -> int:
    """The shaper's bucket: BURST_S of the link; it has to hold the largest unit, or that would be cut up or dropped."""
    return max((segments + 1) * SEGMENT, int(rate * BURST_S / 8))


def window_bytes(topology: Topology) -> int:
    """WINDOW, and twice what the fastest link carries in a round trip where packets are delayed."""
    delay_s = 2 * max(rack.delay_ms for rack in topology.racks.values()) / 1e3
    fastest = max((rack.link or FASTEST) for rack in topology.racks.values())
    return WINDOW + 2 * int(fastest * delay_s / 8)


def namespace_commands(layout: Layout) -> Iterator[Command]:
    """What makes the namespaces. They come first: whatever fails later, or dies, is found by their names."""
    for namespace in layout.namespaces:
        yield ("ip", "netns", "add", namespace)
        yield _ip(namespace, "link", "set", "dev", "lo", "up")


def network_commands(layout: Layout) -> Iterator[Command]:
    """What makes bridges and links between namespaces that are there, in order."""
    switch = layout.name.switch
    for bridge in bridges(layout):
        # Without snooping a bridge sends nothing of its own, and no delay keeps a port from forwarding.
        yield _ip(switch, "link", "add", "name", bridge, "type", "bridge", "forward_delay", "0", "mcast_snooping", "0")
        yield _ip(switch, "link", "set", "dev", bridge, "up")
    for host, link in zip(layout.hosts, layout.links, strict=True):
        yield from _link(link, host.namespace)
        yield _ip(switch, "link", "set", "dev", link.far.interface, "master", f"rack{host.rack}")
        yield _ip(host.namespace, "address", "add", f"{host.address}/{PREFIX_LENGTH}", "dev", link.near.interface)
        if layout.segments is not None:
            segments = ("gso_max_segs", str(layout.segments))
            yield _ip(host.namespace, "link", "set", "dev", link.near.interface, *segments)
    for number, link in enumerate(layout.uplinks):
        yield from _link(link, switch)
        yield _ip(switch, "link", "set", "dev", link.near.interface, "master", f"rack{number}")
        yield _ip(switch, "link", "set", "dev", link.far.interface, "master", "core")
    for link in (*layout.links, *layout.uplinks):
        for end in (link.near, link.far):
            yield from shape_commands(end, layout.segments)
            yield _ip(end.namespace, "link", "set", "dev", end.interface, "up")


def bridges(layout: Layout) -> list[str]:
    racks = sorted({host.rack for host in layout.hosts})
    return [*(f"rack{number}" for number in racks), *(["core"] if layout.uplinks else [])]


def shape_commands(end: End, segments: int | None) -> Iterator[Command]:
    """What makes `end` send at its rate, after its delay. The delay comes first, so that it holds what the rate let pass."""
    at: Command = ("root", "handle", "1:")
    if end.delay_ms:
        held = 2 * (end.rate or FASTEST) * end.delay_ms / 1e3 / 8 / SEGMENT
        delay = ("netem", "delay", f"{round(end.delay_ms * 1000)}us", "limit", str(1000 + round(held)))
        yield _tc(end, *at, *delay)
        at = ("parent", "1:1", "handle", "2:")
    if end.rate is not None:
        burst = burst_bytes(end.rate, segments or 1)
        yield _tc(end, *at, "tbf", "rate", f"{end.rate}bit", "burst", f"{burst}b", "limit", f"{QUEUE}b")


def remove_command(namespace: str) -> Command:
    """What removes a namespace. Interfaces, bridges and shapers go with it."""
    return ("ip", "netns", "delete", namespace)


def delay_probe(layout: Layout) -> Command:
    """Delays nothing that anybody sends; fails where the kernel has no netem."""
    return ("tc", "-n", layout.name.switch, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")


def link_state(layout: Layout, place: int, state: str) -> Command:
    """Switch the port of host `place` `up` or `down`: the host then has, or has not, a cable."""
    far = layout.links[place].far
    return _ip(far.namespace, "link", "set", "dev", far.interface, state)


def _link(link: Link, near_in: str) -> Iterator[Command]:
    near, far = link.near, link.far
    peer = ("peer", "name", near.interface, "netns", near_in)
    yield _ip(far.namespace, "link", "add", "name", far.interface, "type", "veth", *peer)


def _ip(namespace: str, *arguments: str) -> Command:
    return ("ip", "-n", namespace, *arguments)


def _tc(end: End, *arguments: str) -> Command:
    return ("tc", "-n", end.namespace, "qdisc", "add", "dev", end.interface, *arguments)
