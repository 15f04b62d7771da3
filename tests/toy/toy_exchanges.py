"""Exchanges that are wrong on purpose, for the self-check to find, and one that tries the wire. Not a test module."""

from collections.abc import Sequence
from typing import Any

from tfscale.suite.exchange.base import Exchange
from tfscale.suite.exchange.none import NoCompression
from tfscale.suite.exchange.wire import Wire


class LocalOnly(Exchange):
    """Skips communication: every replica keeps its own gradient, which would look like perfect scaling."""

    name = "local_only"

    def reduce(self, wire: Wire, gradients: Sequence[Any], riders: Any) -> tuple[list[Any], Any]:
        _, riders = NoCompression().reduce(wire, [riders * 0.0], riders)
        return [_scaled(g, float(wire.replicas)) for g in gradients], riders


class Broadcast(Exchange):
    """Gives everybody the first replica's gradient: equal weights, wrong maths."""

    name = "broadcast"

    def reduce(self, wire: Wire, gradients: Sequence[Any], riders: Any) -> tuple[list[Any], Any]:
        first = float(wire.replicas if wire.replica == 0 else 0)
        return NoCompression().reduce(wire, [_scaled(g, first) for g in gradients], riders)


class DenseOnly(Exchange):
    """Forgets the sparse gradients."""

    name = "dense_only"

    def reduce(self, wire: Wire, gradients: Sequence[Any], riders: Any) -> tuple[list[Any], Any]:
        dense = [g for g in gradients if not hasattr(g, "indices")]
        reduced, riders = NoCompression().reduce(wire, dense, riders)
        left = iter(reduced)
        return [g if hasattr(g, "indices") else next(left) for g in gradients], riders


class EveryCollective(NoCompression):
    """`none`, after every collective has run over all replicas, halves, pairs and a group of a group.

    What each gives is compared with what it must give, within the traced step. Values change from step to step, so that
    what one step left would be seen in the next.
    """

    name = "every_collective"

    def reduce(self, wire: Wire, gradients: Sequence[Any], riders: Any) -> tuple[list[Any], Any]:
        import tensorflow as tf

        step = self.kept(wire, "step", [1]).assign_add([1.0])
        halves = [range(0, wire.replicas, 2), range(1, wire.replicas, 2)]
        pairs = [(first, first + 1) for first in range(0, wire.replicas, 2)]
        half, pair = wire.among(halves), wire.among(pairs)
        own = wire.replica - wire.replica % 2
        checks = [
            *collectives(wire, [*range(wire.replicas)], step),
            *collectives(half, list(halves[wire.replica % 2]), step),
            *collectives(pair, [own, own + 1], step),
            *collectives(half.among([range(half.replicas)]), list(halves[wire.replica % 2]), step),
            tf.reduce_all(tf.equal(pair.sum(half.sum([step]))[0], step * float(wire.replicas))),
        ]
        # One assertion of all: each has functions of its own, and three dozen took most of the time to trace.
        right = tf.stack(checks)
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(right), [right], summarize=len(checks))]):
            return super().reduce(wire, gradients, tf.identity(riders))


def collectives(wire: Wire, members: list[int], step: Any) -> list[Any]:
    """Checks of all collectives of a wire between `members`. `step`: float32 [1], the same on all of them."""
    import tensorflow as tf

    n, me = len(members), members[wire.replica]
    everybody = tf.constant(members, tf.float32)
    mine = me * 1000.0 + step

    def same(found: Any, expected: Any) -> Any:
        return tf.reduce_all(tf.equal(found, tf.broadcast_to(expected, tf.shape(found))))

    rows = tf.IndexedSlices(tf.reshape(mine, [1, 1]), tf.constant([me]), tf.constant([99, 1], tf.int64))
    first, second, gathered = wire.sum([mine, mine[0] * 2.0, rows], 1.0)
    parts = mine + 10.0 * tf.range(float(n))
    total = tf.reduce_sum(everybody) * 1000.0 + n * step
    return [
        same(first, total),
        same(second, 2.0 * total[0]),
        same(wire.sum([tf.constant([me, 1])])[0], tf.constant([sum(members), n])),
        same(gathered.values[:, 0], everybody * 1000.0 + step),
        same(gathered.indices, tf.constant(members)),
        same(wire.gather(mine), (everybody * 1000.0 + step)[:, None]),
        same(wire.gather(tf.cast([me], tf.bfloat16)), tf.cast(everybody, tf.bfloat16)[:, None]),
        same(wire.all_to_all(parts), everybody * 1000.0 + step + 10.0 * wire.replica),
        same(wire.reduce_scatter(parts), (total + 10.0 * n * wire.replica)[0]),
    ]


def _scaled(gradient: Any, factor: Any) -> Any:
    import tensorflow as tf

    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor
