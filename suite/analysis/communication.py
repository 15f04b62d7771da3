"""What communication costs: seconds of collectives from latency and inverse bandwidth, and of an exchange within a step.

T = messages x latency + bytes x seconds per byte (Hockney, Parallel Computing 20, 1994). How many messages and bytes
each algorithm puts one after the other on a link: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005; for the ring
all-reduce also Patarasuk and Yuan, JPDC 69(2), 2009. Sizes are those of nccl-tests: S is the total for all-gather and
reduce-scatter, and what one rank holds for the others. A link is full duplex, ranks are numbered along the ring.

Adding up costs time too; it is not told apart, but lies in the seconds per byte that are fitted to an all-reduce.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tfscale.suite.profiling.collectives import BUS_FACTORS


@dataclass(frozen=True)
class Link:
    """What a message of S bytes takes: latency_s + S x seconds_per_byte."""

    latency_s: float
    seconds_per_byte: float

    def seconds(self, size: float) -> float:
        return self.latency_s + size * self.seconds_per_byte

    def shared_by(self, flows: int) -> "Link":
        """The link as each of `flows` equal flows sees it that use it at once."""
        return Link(self.latency_s, self.seconds_per_byte * flows)


def _tree_depth(ranks: int) -> float:
    return float(math.ceil(math.log2(ranks)))


MESSAGES: Mapping[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1),
    "all_gather": lambda n: n - 1,
    "reduce_scatter": lambda n: n - 1,
    "all_to_all": lambda n: n - 1,
    "broadcast": _tree_depth,
}
"""Messages one after the other: ring all-reduce, all-gather and reduce-scatter, pairwise all-to-all, binomial broadcast."""

BYTES: Mapping[str, Callable[[int], float]] = {
    **{name: BUS_FACTORS[name] for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")},
    "broadcast": _tree_depth,
}
"""Bytes that those messages carry, as a multiple of S. Rings carry the least possible, a binomial tree does not."""


def seconds(kind: str, ranks: int, size: float, link: Link) -> float:
    """Seconds of one collective of `size` bytes over `ranks` ranks, all links alike; 0 for a rank alone."""
    if ranks < 2:
        return 0.0
    return MESSAGES[kind](ranks) * link.latency_s + BYTES[kind](ranks) * size * link.seconds_per_byte


def broadcast_in_parts(ranks: int, size: float, link: Link) -> float:
    """Broadcast of a large vector: a binomial scatter, then a ring all-gather (Thakur et al., section 4.3)."""
    if ranks < 2:
        return 0.0
    messages = _tree_depth(ranks) + ranks - 1
    return messages * link.latency_s + 2 * (ranks - 1) / ranks * size * link.seconds_per_byte


def ring_all_reduce(hops: Sequence[Link], size: float) -> float:
    """Ring all-reduce over unequal links, `hops[i]` from rank i to the next: each of its steps waits for the slowest.

    A link that the ring crosses several times in one direction stands there as `shared_by` so many flows.
    """
    ranks = len(hops)
    if ranks < 2:
        return 0.0
    return 2 * (ranks - 1) * max(hop.seconds(size / ranks) for hop in hops)


def two_level_all_reduce(
    members: int, racks: int, size: float, *, inside: Link, across: Link, chunks: int = 1
) -> float:
    """Reduce-scatter in racks of `members`, all-reduce of each shard over `racks`, all-gather in the racks.

    All `members` shards of a rack cross its uplink at once: `across` is the uplink as a whole. In `chunks` equal parts
    the levels overlap: one chunk goes through both, the others take what the slower level takes.
    """
    part = size / chunks
    within = seconds("reduce_scatter", members, part, inside) + seconds("all_gather", members, part, inside)
    between = seconds("all_reduce", racks, part / members, across.shared_by(members))
    return within + between + (chunks - 1) * max(within, between)


@dataclass(frozen=True)
class Moved:
    """A collective that an exchange asks for, in the order in which it asks."""

    kind: str
    size: float
    """Bytes, counted as above."""
    ranks: int
    level: str = "all"
    """Whom it joins: `all`, the ranks of a `rack`, or ranks `across` racks."""


def exchange_seconds(moved: Sequence[Moved], links: Mapping[tuple[str, str], Link]) -> float:
    """Seconds of an exchange's collectives. `links` by (level, kind); a kind that is not there goes by `all_reduce`, else
    by the first kind of its level.

    Collectives of one level come one after the other; levels overlap as in `two_level_all_reduce`, where the chunks are
    the collectives of the level that takes longest. Raises KeyError for a level without a link.
    """
    by_level: dict[str, list[float]] = {}
    for each in moved:
        link = _link(links, each)
        by_level.setdefault(each.level, []).append(seconds(each.kind, each.ranks, each.size, link))
    if not by_level:
        return 0.0
    totals = {level: sum(times) for level, times in by_level.items()}
    slowest = max(totals, key=lambda level: totals[level])
    chunks = len(by_level[slowest])
    return totals[slowest] + sum(total for level, total in totals.items() if level != slowest) / chunks


def _link(links: Mapping[tuple[str, str], Link], moved: Moved) -> Link:
    mine = {kind: link for (level, kind), link in links.items() if level == moved.level}
    if not mine:
        raise KeyError(moved.level)
    return mine.get(moved.kind) or mine.get("all_reduce") or next(iter(mine.values()))


def packs(sizes: Sequence[int], limit: float) -> list[int]:
    """Bytes of the packs that TensorFlow joins tensors of these `sizes` into, in the order in which they leave.

    The last tensor goes first, and a pack is closed once it is larger than `limit` bytes; 0 is one pack.
    """
    found: list[int] = []
    for size in reversed(sizes):
        if not found or (limit > 0 and found[-1] > limit):
            found.append(0)
        found[-1] += size
    return found


def exposed(leaving: Sequence[tuple[float, float]], backward_s: float) -> float:
    """Seconds that the exchange goes on after the backward pass.

    `leaving`: (bytes, seconds on the wire) of each pack, in the order in which gradients become ready. A pack is ready
    when its share of the bytes is, at an even pace; it leaves when it is ready and the one before is through.
    """
    total = sum(size for size, _ in leaving)
    done = end = 0.0
    for size, taken in leaving:
        done += size
        end = max(end, backward_s * done / total if total else backward_s) + taken
    return max(0.0, end - backward_s)


@dataclass(frozen=True)
class ExchangeCost:
    """One step's exchange: what is computed to encode and decode, and what is on the wire."""

    codec_s: float
    wire_s: float
    hidden_s: float = 0.0
    """Of the wire's seconds, what the backward pass hides."""

    @property
    def added_s(self) -> float:
        """Seconds that the exchange adds to the step."""
        return self.codec_s + self.wire_s - self.hidden_s


def with_overlap(codec_s: float, leaving: Sequence[tuple[float, float]], backward_s: float) -> ExchangeCost:
    """The cost where packs leave during a backward pass of `backward_s` seconds; see `exposed`."""
    wire = sum(taken for _, taken in leaving)
    return ExchangeCost(codec_s, wire, wire - exposed(leaving, backward_s))
