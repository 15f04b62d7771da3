"""Exchanges that are wrong on purpose, for the self-check to find. Not a test module."""

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


def _scaled(gradient: Any, factor: Any) -> Any:
    import tensorflow as tf

    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor
