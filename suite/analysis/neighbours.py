"""Which hosts are neighbours: racks from latency and bandwidth between every two of them, and a topology to name. Pure.

Single linkage: two hosts belong together where a chain of near ones joins them. The cut is where the distances at which
groups join make their largest jump, if that is a clear one; else all hosts are one rack.
"""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfscale.suite.topology import Rack, Topology

RATIO = 1.5
"""How many times farther the nearest other rack must be than the farthest join within racks."""
Pair = tuple[int, int]
Distances = Mapping[Pair, float]


@dataclass(frozen=True)
class Racks:
    """`racks[host]` is the number of its rack, in the order in which they appear."""

    racks: tuple[int, ...]
    reason: str

    @property
    def several(self) -> bool:
        return len(set(self.racks)) > 1


def racks(hosts: int, pairs: Mapping[Pair, tuple[float | None, float | None]], ratio: float = RATIO) -> Racks:
    """Racks of `hosts` hosts by (latency in s, bandwidth in B/s) between each two; None where it is not known.

    Bandwidth is asked first, then latency: a link that is both fast and far still parts hosts.
    """
    if hosts < 3:
        why = "one host" if hosts < 2 else "two hosts have one link, and nothing to compare it with"
        return Racks((0,) * hosts, why)
    told = []
    for name, distances in (
        ("bandwidth", {pair: 1 / bandwidth for pair, (_, bandwidth) in pairs.items() if bandwidth}),
        ("latency", {pair: latency for pair, (latency, _) in pairs.items() if latency}),
    ):
        if len(distances) < hosts * (hosts - 1) // 2:
            told.append(f"{name} is not known between all hosts")
            continue
        heights = [distance for distance, _ in joins(hosts, distances)]
        place, jump = _largest_jump(heights)
        if jump >= ratio:
            parts = components(hosts, distances, heights[place])
            reason = (
                f"{name} between racks is {jump:.2f} times worse than the worst that joins a rack (cut at {ratio:g})"
            )
            return Racks(parts, reason)
        told.append(f"{name} differs by {jump:.2f} at most from join to join (cut at {ratio:g})")
    return Racks((0,) * hosts, "; ".join(told))


def joins(hosts: int, distances: Distances) -> list[tuple[float, Pair]]:
    """The hosts - 1 joins of single linkage, nearest first: the edges of a minimum spanning tree (Kruskal)."""
    group = list(range(hosts))
    found = []
    for distance, (one, other) in sorted((distance, pair) for pair, distance in distances.items()):
        if group[one] != group[other]:
            found.append((distance, (one, other)))
            old, new = group[other], group[one]
            group = [new if each == old else each for each in group]
    return found


def components(hosts: int, distances: Distances, farthest: float) -> tuple[int, ...]:
    """Number of each host's group when all pairs up to `farthest` are joined, groups numbered as they appear."""
    near = {pair: distance for pair, distance in distances.items() if distance <= farthest}
    group = list(range(hosts))
    for _, (one, other) in joins(hosts, near):
        old, new = group[other], group[one]
        group = [new if each == old else each for each in group]
    order = list(dict.fromkeys(group))
    return tuple(order.index(each) for each in group)


def _largest_jump(heights: Sequence[float]) -> tuple[int, float]:
    """Place of the join before the largest jump, and how many times the next one is farther."""
    jumps = [after / before for before, after in itertools.pairwise(heights)]
    place = max(range(len(jumps)), key=lambda at: jumps[at])
    return place, jumps[place]


def topology(name: str, found: Racks, bandwidths: Mapping[Pair, float | None]) -> Topology:
    """The topology that was measured: links are medians of pairs within a rack, uplinks of pairs that leave it.

    Rates are rounded to three digits. A rack of one host has no pair that would tell its link: that stays unlimited.
    """
    names = [_letters(number) for number in range(len(set(found.racks)))]
    described = {}
    for number, rack in enumerate(names):
        within: list[float] = []
        leaving: list[float] = []
        for (one, other), bandwidth in bandwidths.items():
            ends = (found.racks[one] == number) + (found.racks[other] == number)
            if bandwidth is not None and ends:
                (within if ends == 2 else leaving).append(bandwidth)
        described[rack] = Rack(link=_rate(within), uplink=_rate(leaving))
    return Topology(name=name, racks=described, hosts=tuple(names[rack] for rack in found.racks))


def as_yaml(measured: Topology, found: Racks) -> str:
    """The topology file, with how it was found."""
    import yaml

    data = measured.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    head = (
        "# Measured by `tfscale bench collectives --pairs` through TensorFlow's own sums: what a training sees of the\n"
        f"# links, not their nominal rates. {found.reason[:1].upper()}{found.reason[1:]}.\n"
    )
    return head + yaml.safe_dump(data, sort_keys=False, default_flow_style=None)


def _rate(bandwidths: Sequence[float]) -> int | None:
    """Bits per second of the median of bytes per second, to three digits."""
    if not bandwidths:
        return None
    rate = 8 * statistics.median(bandwidths)
    digits = 2 - math.floor(math.log10(rate))
    return int(round(rate, digits))


def _letters(number: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    letters = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("a") + rest) + letters
    return letters
