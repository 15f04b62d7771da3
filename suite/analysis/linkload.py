"""Bytes that the collectives of one step put on each link of a described network. Pure arithmetic.

A link carries both directions at once, so each direction has a load of its own: `up` towards the core, `down` from it.
Rates are of payload; frames and acknowledgements come on top (about 3 to 5 %).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from tfscale.suite.topology import Topology

Direction = Literal["up", "down"]


@dataclass(frozen=True)
class Link:
    """One direction of a host's link to its switch (`host`: its place in the topology), or of a rack's to the core."""

    rack: str
    host: int | None
    direction: Direction


Load = dict[Link, float]
"""Bytes of one step; links that carry nothing are left out."""


def send(topology: Topology, source: int, target: int, amount: float) -> Load:
    """`amount` bytes from one host to another, by their places; nothing within a host."""
    if source == target:
        return {}
    racks = topology.hosts[source], topology.hosts[target]
    load: Load = {Link(racks[0], source, "up"): amount, Link(racks[1], target, "down"): amount}
    if racks[0] != racks[1]:
        load[Link(racks[0], None, "up")] = amount
        load[Link(racks[1], None, "down")] = amount
    return load


def added(loads: Iterable[Mapping[Link, float]]) -> Load:
    """The sum of loads."""
    total: Counter[Link] = Counter()
    for load in loads:
        for link, amount in load.items():
            total[link] += amount  # type: ignore[assignment]  # a Counter of bytes, which need not be whole
    return dict(total)


def ring_all_reduce(topology: Topology, places: Sequence[int], payload: float) -> Load:
    """A sum of `payload` bytes over replicas on the hosts `places`, in the order of the ring.

    Each of n replicas sends 2 (n - 1) / n of it to the next (Patarasuk and Yuan 2009).
    """
    n = len(places)
    return _around(topology, places, 2 * (n - 1) / n * payload)


def ring_gather(topology: Topology, places: Sequence[int], payload: float) -> Load:
    """A gather of `payload` bytes from each replica: each passes those of all others but the next's on, (n - 1) x it."""
    return _around(topology, places, (len(places) - 1) * payload)


def all_to_all(topology: Topology, places: Sequence[int], payload: float) -> Load:
    """Each replica's `payload` bytes in equal parts to all, its own part staying where it is."""
    part = payload / len(places)
    return added(
        send(topology, source, target, part)
        for i, source in enumerate(places)
        for j, target in enumerate(places)
        if i != j
    )


def two_level_all_reduce(topology: Topology, places: Sequence[int], payload: float) -> Load:
    """A sum in two levels: reduce-scatter in each rack, a ring over racks for each shard, all-gather in each rack.

    Raises ValueError unless all racks in use have as many replicas as each other.
    """
    members: dict[str, list[int]] = {}
    for place in places:
        members.setdefault(topology.hosts[place], []).append(place)
    sizes = {len(group) for group in members.values()}
    if len(sizes) != 1:
        raise ValueError(f"two levels need racks of equal size, got {sorted(len(g) for g in members.values())}")
    groups = list(members.values())
    shard = payload / sizes.pop()
    inside = [all_to_all(topology, group, payload) for group in groups]
    inside += [ring_gather(topology, group, shard) for group in groups]
    across = [ring_all_reduce(topology, peers, shard) for peers in zip(*groups, strict=True)]
    return added([*inside, *across])


def _around(topology: Topology, places: Sequence[int], amount: float) -> Load:
    if len(places) < 2:
        return {}
    return added(send(topology, source, target, amount) for source, target in pairwise([*places, places[0]]))


def rate_of(topology: Topology, link: Link) -> int | None:
    """Bits per second of a link in its direction; None where it is not limited."""
    rack = topology.racks[link.rack]
    return rack.uplink if link.host is None else rack.link


def busy_s(topology: Topology, load: Mapping[Link, float]) -> dict[Link, float]:
    """Seconds that each limited link needs at least for its load."""
    rates = {link: rate for link in load if (rate := rate_of(topology, link)) is not None}
    return {link: float(Fraction(load[link]) * 8 / rate) for link, rate in rates.items()}


def bottleneck(topology: Topology, load: Mapping[Link, float]) -> tuple[Link, float] | None:
    """The link that is busy longest, and for how long (seconds): no step is shorter. None where no link is limited."""
    busy = busy_s(topology, load)
    if not busy:
        return None
    longest = max(busy.values())
    worst = min((link for link in busy if busy[link] == longest), key=str)  # of equals always the same
    return worst, longest
