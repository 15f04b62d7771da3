"""Two levels: gradients are summed within each rack first, so that only a share of them crosses the slow core.

A reduce-scatter leaves each replica of a rack with the rack's sum of one shard; replicas with the same shard sum it
across racks; an all-gather in the rack hands the shards round. With m replicas in each of k racks, an all-reduce of S
bytes sends 2(k-1)/k S bytes out of a rack, however the ranks are ordered. A flat ring over all n replicas sends
2(n-1)/n S over each of its links, so as many times that as its order leaves the rack.

The stream of gradients is cut into chunks: while one crosses, the next is reduced in its rack, and the one before is
handed round.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfscale.suite.exchange.base import create
from tfscale.suite.exchange.dense import SMALL, DenseExchange, FlatExchange
from tfscale.suite.exchange.none import NoCompression
from tfscale.suite.exchange.racks import chunk_length, columns_of, cut, racks_of, why_not
from tfscale.suite.exchange.wire import MIB, Wire

if TYPE_CHECKING:
    from tfscale.suite.spec import Case
    from tfscale.suite.strategies.base import Session

MOST_CHUNKS = 32
LANES = 2
"""Wires across racks that take turns: while one waits for its partners, the other keeps the core busy."""


class Hierarchical(DenseExchange):
    """`hierarchical`, `hierarchical(chunks=8)` or `hierarchical(cross=fp16)`.

    `chunks`: into how many the dense gradients are cut; 0 is one a MiB, at most 32. `cross`: the exchange of the shards
    across racks, one that works on a flat vector; lossy ones leave small tensors to the flat sum. Sparse gradients and
    riders are summed flat, as in `none`.
    """

    name = "hierarchical"

    def __init__(self, chunks: int = 0, cross: str = "none") -> None:
        super().__init__()
        if isinstance(chunks, bool) or not isinstance(chunks, int) or chunks < 0:
            raise TypeError(f"chunks is {chunks!r}, and must be a whole number: how many, or 0 for one a MiB")
        self._chunks = chunks
        self._cross_name = str(cross)
        self._cross = create(self._cross_name)
        self.exact, self.tolerance, self.moves = self._cross.exact, self._cross.tolerance, self._cross.moves
        self.smallest = 0 if self.exact else SMALL

    def refuses(self, case: "Case") -> str | None:
        if not isinstance(self._cross, FlatExchange | NoCompression):
            return (
                f"exchange hierarchical with cross={self._cross_name}: a shard is a flat vector, and "
                f"{self._cross.name} needs whole gradients; cross may be none, fp16, bf16, int8 or topk"
            )
        if case.topology is None:
            return "exchange hierarchical: it needs a topology that tells which hosts share a rack"
        places = case.topology.order(case.order, case.hosts)
        reason = why_not(racks_of(case.topology.racks_of(places)))
        return reason and f"exchange hierarchical: {reason}"

    def build(self, session: "Session", variables: Sequence[Any]) -> None:
        super().build(session, variables)
        self._cross.build(session, variables)
        reason = why_not(racks_of(session.racks))
        if reason is not None or len(session.racks) != session.replicas:
            raise ValueError(
                f"exchange hierarchical: racks of {session.replicas} replicas are {session.racks}; {reason}"
            )

    def combine(self, wire: Wire, places: Sequence[int], gradients: Sequence[Any]) -> list[Any]:
        import tensorflow as tf

        assert self._session is not None, "build comes first"
        racks = racks_of(self._session.racks)
        down, up = wire.among(racks), wire.among(racks)
        lanes = [wire.among(columns_of(racks)) for _ in range(LANES)]
        sizes = [int(gradient.shape.num_elements()) for gradient in gradients]
        flat = [tf.reshape(gradient, [-1]) for gradient in gradients]
        found: dict[int, list[Any]] = defaultdict(list)
        for number, pieces in enumerate(cut(sizes, self._length(sum(sizes), down.replicas))):
            shard = down.reduce_scatter(_joined([flat[p.place][p.begin : p.end] for p in pieces], down.replicas))
            whole = tf.reshape(up.gather(self._across(lanes[number % LANES], shard)), [-1])
            for piece, part in zip(pieces, _parted(whole, [p.end - p.begin for p in pieces]), strict=True):
                found[piece.place].append(part)
        return [tf.reshape(_joined(found[place]), gradient.shape) for place, gradient in enumerate(gradients)]

    def _length(self, total: int, members: int) -> int:
        """Elements of a chunk."""
        by_size = min(MOST_CHUNKS, -(-4 * total // MIB))
        return chunk_length(total, self._chunks or by_size, members)

    def _across(self, wire: Wire, shard: Any) -> Any:
        """The sum of a rack's shard over all racks."""
        if isinstance(self._cross, FlatExchange):
            return self._cross.combine_flat(wire, shard)
        return wire.sum([shard])[0]

    def settle(self, replica: int, skipped: Any) -> None:
        self._cross.settle(replica, skipped)

    def state(self, replica: int) -> list[Any]:
        return self._cross.state(replica)


def _joined(parts: Sequence[Any], rows: int | None = None) -> Any:
    """Vectors one after the other; with `rows`, as that many rows, zeros added to fill them."""
    import tensorflow as tf

    parts = list(parts)
    length = sum(int(part.shape[0]) for part in parts)
    lacking = -length % (rows or 1)
    if lacking:
        parts.append(tf.zeros([lacking], parts[0].dtype))
    whole = parts[0] if len(parts) == 1 else tf.concat(parts, 0)
    return whole if rows is None else tf.reshape(whole, [rows, -1])


def _parted(whole: Any, sizes: Sequence[int]) -> list[Any]:
    """The first sum(sizes) elements, as vectors of those sizes."""
    import tensorflow as tf

    rest = int(whole.shape[0]) - sum(sizes)
    if len(sizes) == 1:
        return [whole[: sizes[0]] if rest else whole]
    return list(tf.split(whole, [*sizes, rest]))[: len(sizes)]
