"""What compressing exchanges have in common: they change how large dense gradients travel, and nothing else.

Sparse gradients stay sparse, small tensors are not worth the work, and both go with the riders as in `none`.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from tfscale.suite.exchange.base import Exchange
from tfscale.suite.exchange.none import NoCompression
from tfscale.suite.exchange.wire import Wire

SMALL = 1024
"""Elements below which a tensor travels as it is: its latency costs more than its bytes."""


class DenseExchange(Exchange):
    """Subclasses combine the large dense gradients; `large(variables)` says which those are."""

    smallest: int = SMALL

    def __init__(self) -> None:
        super().__init__()
        self._rest = NoCompression()

    def large(self, gradients: Sequence[Any]) -> list[int]:
        """Places of the dense gradients that are compressed; shapes alone decide, on every replica alike."""
        return [
            place
            for place, gradient in enumerate(gradients)
            if not hasattr(gradient, "indices") and int(gradient.shape.num_elements()) >= self.smallest
        ]

    def reduce(self, wire: Wire, gradients: Sequence[Any], riders: Any) -> tuple[list[Any], Any]:
        if wire.replicas == 1:
            return list(gradients), riders
        large = self.large(gradients)
        others = [place for place in range(len(gradients)) if place not in set(large)]
        # Riders come last: one of them tells of overflow in any gradient, so they are known when the backward pass has ended.
        combined = self.combine(wire, large, [gradients[place] for place in large]) if large else []
        rest, summed = self._rest.reduce(wire, [gradients[place] for place in others], riders)
        means = dict(zip([*large, *others], [*combined, *rest], strict=True))
        return [means[place] for place in range(len(gradients))], summed

    @abstractmethod
    def combine(self, wire: Wire, places: Sequence[int], gradients: Sequence[Any]) -> list[Any]:
        """Means of dense gradients, from this replica's shares.

        `places` are their numbers among all variables, by which state is found. Encoding runs under the name scope
        `exchange/encode` and decoding under `exchange/decode`, so that a profile can tell them from the rest.
        """


class FlatExchange(DenseExchange):
    """A compressing exchange that works on any flat float32 vector, so also on a shard of one (see `hierarchical`).

    All large gradients travel as one vector, so that no tensor pays its own latency and none is too small to split.
    """

    def combine(self, wire: Wire, places: Sequence[int], gradients: Sequence[Any]) -> list[Any]:
        import tensorflow as tf

        with tf.name_scope("exchange/encode"):
            flat = joined(gradients)
        mean = self.combine_flat(wire, flat)
        with tf.name_scope("exchange/decode"):
            return parted(mean, gradients)

    @abstractmethod
    def combine_flat(self, wire: Wire, flat: Any) -> Any:
        """The mean over the wire's replicas of their shares: a float32 vector of a length known while tracing."""


def joined(gradients: Sequence[Any]) -> Any:
    """All tensors as one vector."""
    import tensorflow as tf

    return tf.concat([tf.reshape(gradient, [-1]) for gradient in gradients], 0)


def parted(flat: Any, like: Sequence[Any]) -> list[Any]:
    """Tensors of the shapes of `like` from the vector that `joined` would make of such."""
    import tensorflow as tf

    parts = tf.split(flat, [int(tensor.shape.num_elements()) for tensor in like])
    return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, like, strict=True)]
