"""The lab on paper: commands are followed by a small interpreter, and the network that they make is the one described."""

import sys
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import rooms

from tfscale.suite.netlab.layout import (
    QUEUE,
    SEGMENT,
    Command,
    LabName,
    burst_bytes,
    lay_out,
    namespace_commands,
    network_commands,
    owner_of,
    segments_of,
)
from tfscale.suite.topology import Topology

NAME = LabName(pid=4194304, started=99999999, number=12)
Node = tuple[str, str]
"""(namespace, interface or bridge)"""


class Network:
    """What `ip` and `tc` would have made of the commands."""

    def __init__(self, commands: Iterable[Command]) -> None:
        self.namespaces: set[str] = set()
        self.interfaces: dict[str, set[str]] = defaultdict(set)
        self.wires: dict[Node, set[Node]] = defaultdict(set)
        self.pairs: set[frozenset[Node]] = set()
        self.rates: dict[Node, int] = {}
        self.addresses: dict[str, Node] = {}
        self.up: set[Node] = set()
        for command in commands:
            self._take(list(command))

    def _take(self, words: list[str]) -> None:
        if words[:3] == ["ip", "netns", "add"]:
            assert words[3] not in self.namespaces
            self.namespaces.add(words[3])
            return
        program, flag, namespace, what, action, *rest = words
        assert flag == "-n" and namespace in self.namespaces
        if (what, action) == ("link", "add"):
            node = self._new(namespace, rest[rest.index("name") + 1])
            if "veth" in rest:
                peer = rest[rest.index("peer") :]
                other = self._new(peer[peer.index("netns") + 1], peer[peer.index("name") + 1])
                self.pairs.add(frozenset((node, other)))
                self._wire(node, other)
            return
        node = (namespace, rest[rest.index("dev") + 1])
        assert node[1] == "lo" or node[1] in self.interfaces[namespace]
        if (what, action) == ("address", "add"):
            assert rest[0] not in self.addresses
            self.addresses[rest[0]] = node
        elif "master" in rest:
            self._wire(node, (namespace, rest[rest.index("master") + 1]))
        elif rest[-1] == "up":
            self.up.add(node)
        elif program == "tc":
            self.rates[node] = int(rest[rest.index("rate") + 1].removesuffix("bit"))

    def _new(self, namespace: str, name: str) -> Node:
        assert namespace in self.namespaces and name not in self.interfaces[namespace] and len(name) <= 15
        self.interfaces[namespace].add(name)
        return (namespace, name)

    def _wire(self, one: Node, other: Node) -> None:
        self.wires[one].add(other)
        self.wires[other].add(one)

    def slowest(self, source: Node, target: Node) -> int | None:
        """Rate of the narrowest place between two interfaces; None where nothing limits. There must be one way only."""
        ways = list(self._ways(source, target, [source]))
        assert len(ways) == 1, ways
        # A shaper holds what its interface sends: what enters a pair of interfaces at this end.
        entered = [one for one, two in pairwise(ways[0]) if frozenset((one, two)) in self.pairs]
        return min((self.rates[one] for one in entered if one in self.rates), default=None)

    def _ways(self, at: Node, target: Node, way: list[Node]) -> Iterable[list[Node]]:
        if at == target:
            yield way
        for following in self.wires[at] - set(way):
            yield from self._ways(following, target, [*way, following])


def built(topology: Topology) -> Network:
    layout = lay_out(topology, NAME)
    return Network([*namespace_commands(layout), *network_commands(layout)])


@pytest.mark.parametrize("hosts", ["aabb", "abab", "aaab"])
def test_every_pair_of_hosts_gets_what_the_topology_says(hosts: str) -> None:
    racks = {"a": {"link": "1Gbit", "uplink": "200Mbit"}, "b": {"link": "400Mbit", "uplink": "500Mbit"}}
    links, uplinks = {"a": 10**9, "b": 4 * 10**8}, {"a": 2 * 10**8, "b": 5 * 10**8}
    network = built(rooms.topology(racks=racks, hosts=list(hosts)))
    places = [network.addresses[f"198.18.0.{place + 1}/24"] for place in range(len(hosts))]
    for one, rack in enumerate(hosts):
        for other, far in enumerate(hosts):
            if one != other:
                limits = [links[rack], links[far], *([uplinks[rack], uplinks[far]] if rack != far else [])]
                assert network.slowest(places[one], places[other]) == min(limits)
    assert {(space, name) for space, names in network.interfaces.items() for name in names} <= network.up
    assert {(space, "lo") for space in network.namespaces} <= network.up


def test_an_unlimited_link_is_not_shaped_and_one_switch_has_no_core() -> None:
    network = built(rooms.topology(hosts=3))
    assert not network.rates and len(network.namespaces) == 4
    assert network.slowest((NAME.host(0), "eth0"), (NAME.host(2), "eth0")) is None
    assert not any(name.startswith(("core", "up")) for name in network.interfaces[NAME.switch])


def test_the_largest_lab_keeps_its_names_short() -> None:
    network = built(rooms.topology(hosts=250, link="10Gbit"))
    assert len(network.addresses) == 250
    assert all(len(name) <= 15 for names in network.interfaces.values() for name in names)


def test_a_delay_lies_before_the_rate() -> None:
    layout = lay_out(rooms.topology(hosts=2, link="100Mbit", delay_ms=2.5), NAME)
    assert layout.delayed
    delays = [command for command in network_commands(layout) if "netem" in command]
    # Of what a host sends, not of what the switch passes on: the way there and back has twice the delay.
    assert [command[2] for command in delays] == [NAME.host(0), NAME.host(1)]
    assert all(" ".join(command).endswith("root handle 1: netem delay 2500us limit 1041") for command in delays)
    rated = [command for command in network_commands(layout) if "tbf" in command and command[2] == NAME.host(0)]
    assert [command[7:11] for command in rated] == [("parent", "1:1", "handle", "2:")]


@pytest.mark.parametrize(
    ("rate", "segments", "burst"),
    [
        (50 * 10**6, 2, 6_250),  # 0.5 ms carry 3125 bytes: two frames; 1 ms 6250
        (100 * 10**6, 4, 12_500),
        (10**9, 41, 125_000),
        (10**6, 1, 2 * 1514),
        (100 * 10**9, 43, 12_500_000),
    ],
)
def test_bursts_hold_the_largest_unit_and_a_millisecond(rate: int, segments: int, burst: int) -> None:
    assert segments_of(rate) == segments
    assert burst_bytes(rate, segments) == burst >= segments * SEGMENT


def test_windows_fill_a_delayed_link_and_fit_the_ports_of_others() -> None:
    assert lay_out(rooms.topology(hosts=4, link="1Gbit"), NAME).window == 512 * 1024 <= QUEUE / 4
    # 1 Gbit/s carries 2.5 MB in a round trip of 20 ms.
    assert lay_out(rooms.topology(hosts=2, link="1Gbit", delay_ms=10), NAME).window == 512 * 1024 + 5_000_000


def test_units_fit_the_slowest_link_on_the_way() -> None:
    layout = lay_out(rooms.two_racks(link="1Gbit", uplink="100Mbit"), NAME)
    told = [command[-1] for command in network_commands(layout) if "gso_max_segs" in command]
    assert told == ["4"] * 4


def test_a_name_tells_its_owner_and_other_names_tell_none() -> None:
    assert owner_of(NAME.host(3)) == owner_of(NAME.switch) == NAME
    for name in ("tfs-1-2-h0", "tfs-1-2-3-", "tfs-1-2-3-h", "tfs-0-2-3-h0", "tfs-1-2-3-h0x", "mine", "xtfs-1-2-3-h0"):
        assert owner_of(name) is None, name
