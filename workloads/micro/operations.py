"""The collectives that are timed: what each rank hands in, what must come out after a chain of them, and how one is made.

Values are small whole numbers, so that every sum is exact in float32 and a result is right or wrong, nothing between.
Numbers of elements are those of nccl-tests: all of it, or for all-gather, reduce-scatter and all-to-all one rank's part.
"""

import itertools
import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.exchange.wire import Wire

Values = NDArray[np.float32]
ELEMENT = 4
"""Bytes of one."""
_EXACT = 2**24
"""Whole numbers up to here are exact in float32."""
_SUMMED = 4
"""Values that are summed lie below."""


def values(count: int, *words: int) -> Values:
    """`count` whole numbers below 1021, another sequence for other words."""
    start = sum((place + 1) * 131 * word for place, word in enumerate(words))
    return ((np.arange(count) + start) % 1021).astype(np.float32)


def longest_chain(ranks: int) -> int:
    """Sums of sums that are still exact: each operation of a chain multiplies by the number of ranks."""
    return max(1, math.floor(math.log(_EXACT / _SUMMED) / math.log(ranks)))


class Timed(ABC):
    """One kind of collective over n ranks."""

    name: ClassVar[str]
    in_parts: ClassVar[bool] = False
    """Whether S is the size of n parts."""

    def count(self, size: int, ranks: int) -> int:
        """Elements for about `size` bytes in all, at least one."""
        return max(1, size // (ELEMENT * (ranks if self.in_parts else 1)))

    def size(self, count: int, ranks: int) -> int:
        """S in bytes."""
        return count * ELEMENT * (ranks if self.in_parts else 1)

    @abstractmethod
    def given(self, rank: int, ranks: int, count: int) -> Values:
        """What `rank` hands in first."""

    @abstractmethod
    def expected(self, rank: int, ranks: int, count: int, chain: int) -> Values:
        """What `rank` must hold after `chain` of them."""

    @abstractmethod
    def once(self, wire: Wire, value: Any, number: int) -> tuple[Any, Any]:
        """Operation `number` of a chain on `value`: what the next one takes, and what came out."""


class AllReduce(Timed):
    name = "all_reduce"

    def given(self, rank: int, ranks: int, count: int) -> Values:
        return values(count, rank) % _SUMMED

    def expected(self, rank: int, ranks: int, count: int, chain: int) -> Values:
        total = np.sum([self.given(other, ranks, count) for other in range(ranks)], axis=0)
        return np.asarray(total * float(ranks) ** (chain - 1), dtype=np.float32)

    def once(self, wire: Wire, value: Any, number: int) -> tuple[Any, Any]:
        (out,) = wire.sum([value], 0)
        return out, out


class AllGather(Timed):
    """Each operation hands in the part of the next rank that the one before brought."""

    name = "all_gather"
    in_parts = True

    def given(self, rank: int, ranks: int, count: int) -> Values:
        return values(count, rank)

    def expected(self, rank: int, ranks: int, count: int, chain: int) -> Values:
        return np.stack([self.given((part + chain - 1) % ranks, ranks, count) for part in range(ranks)])

    def once(self, wire: Wire, value: Any, number: int) -> tuple[Any, Any]:
        out = wire.gather(value)
        return out[(wire.replica + 1) % wire.replicas], out


class ReduceScatter(Timed):
    """Each operation hands in its part of the sum for every rank."""

    name = "reduce_scatter"
    in_parts = True

    def given(self, rank: int, ranks: int, count: int) -> Values:
        return np.stack([values(count, rank, part) % _SUMMED for part in range(ranks)])

    def expected(self, rank: int, ranks: int, count: int, chain: int) -> Values:
        total = np.sum([self.given(other, ranks, count) for other in range(ranks)], axis=0)
        if chain == 1:
            return np.asarray(total[rank], dtype=np.float32)
        return np.asarray(total.sum(axis=0) * float(ranks) ** (chain - 2), dtype=np.float32)

    def once(self, wire: Wire, value: Any, number: int) -> tuple[Any, Any]:
        import tensorflow as tf

        out = wire.reduce_scatter(value)
        return tf.repeat(tf.expand_dims(out, 0), wire.replicas, 0), out


class AllToAll(Timed):
    """Twice gives everybody their own again."""

    name = "all_to_all"
    in_parts = True

    def given(self, rank: int, ranks: int, count: int) -> Values:
        return np.stack([values(count, rank, part) for part in range(ranks)])

    def expected(self, rank: int, ranks: int, count: int, chain: int) -> Values:
        if chain % 2 == 0:
            return self.given(rank, ranks, count)
        return np.stack([values(count, part, rank) for part in range(ranks)])

    def once(self, wire: Wire, value: Any, number: int) -> tuple[Any, Any]:
        out = wire.all_to_all(value)
        return out, out


class Broadcast(Timed):
    """The rank that sends changes from operation to operation, so that each waits for the one before."""

    name = "broadcast"

    def given(self, rank: int, ranks: int, count: int) -> Values:
        return values(count, rank)

    def expected(self, rank: int, ranks: int, count: int, chain: int) -> Values:
        return self.given(0, ranks, count)

    def once(self, wire: Wire, value: Any, number: int) -> tuple[Any, Any]:
        out = _broadcast(wire, value, number % wire.replicas)
        return out, out


_BROADCASTS = itertools.count(1_000_000)
"""Instance keys of broadcasts; every rank traces the same ones in the same order."""


def _broadcast(wire: Wire, value: Any, root: int) -> Any:
    """What `root` holds, over all replicas of the wire. tf.distribute offers none outside of variables, so by raw ops."""
    import tensorflow as tf

    from tfscale.suite.exchange.groupwire import group_key

    keys = {
        "group_size": wire.replicas,
        "group_key": group_key(range(wire.replicas), "broadcast"),
        "instance_key": next(_BROADCASTS),
    }
    if wire.replica == root:
        return tf.raw_ops.CollectiveBcastSendV2(input=value, **keys)
    with tf.control_dependencies([value]):
        received = tf.raw_ops.CollectiveBcastRecvV2(T=value.dtype, shape=tf.constant(value.shape.as_list()), **keys)
    return tf.ensure_shape(received, value.shape)


TIMED: dict[str, Timed] = {
    each.name: each for each in (AllReduce(), AllGather(), ReduceScatter(), AllToAll(), Broadcast())
}


def why_missing(operation: str, accelerator: str) -> str | None:
    """Why TensorFlow cannot do it on such devices, or None."""
    if operation == "reduce_scatter" and accelerator == "cpu":
        return "TensorFlow has no reduce-scatter for CPUs"
    return None
