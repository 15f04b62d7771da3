"""Deep gradient compression: top-k sparsification that keeps momentum right.

Lin, Han, Mao, Wang, Dally: "Deep Gradient Compression", ICLR 2018, arXiv 1712.01887. With g a replica's share of the
mean gradient, clipped to its part of a global norm, each step does locally

    u = momentum u + g;  v = v + u;  send the largest elements of v;  there u = v = 0 (momentum factor masking)

and all replicas apply the sum of what was sent. Momentum is in u, so it takes the place of the optimiser's: give this
exchange to SGD without momentum. Under AdamW the optimiser adds its own on top, and what is left is top-k of smoothed
gradients.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from tfscale.suite.exchange.arguments import at_least_zero, share, whole
from tfscale.suite.exchange.dense import DenseExchange, joined, parted
from tfscale.suite.exchange.feedback import Feedback
from tfscale.suite.exchange.selection import as_words, how_many, largest, sum_of, without
from tfscale.suite.exchange.topk import DENSEST
from tfscale.suite.exchange.wire import Wire

RESIDUAL, VELOCITY = "residual", "velocity"
WARM_UP_RATIOS = (0.25, 0.0625, 0.015625, 0.00390625)
"""Shares sent in the stages of the paper's warm-up: sparsity 75 %, 93.75 %, 98.4375 %, 99.6 %."""


class Dgc(DenseExchange):
    """`dgc(ratio=0.001, momentum=0.9, clip=0, warm_up=0)`.

    `clip`: norm above which gradients are clipped (0: never), that of all large dense gradients together; each replica
    clips its own share to clip / sqrt(replicas), as the paper does. `warm_up`: steps in which more is sent, in equal
    stages of 25 %, 6.25 %, 1.5625 % and 0.390625 %, those above `ratio`. Bytes are reported as after the warm-up.

    Small dense gradients travel whole and get the same momentum. Sparse ones travel as they are and get none.
    """

    name = "dgc"
    exact = False
    moves = "some"

    def __init__(self, ratio: float = 0.001, momentum: float = 0.9, clip: float = 0.0, warm_up: int = 0) -> None:
        super().__init__()
        self._ratio = share("ratio", ratio, below=DENSEST)
        self._momentum = at_least_zero("momentum", momentum, below=1.0)
        self._clip = at_least_zero("clip", clip)
        self._warm_up = whole("warm_up", warm_up, least=0)
        self._feedback = Feedback(self)

    def reduce(self, wire: Wire, gradients: Sequence[Any], riders: Any) -> tuple[list[Any], Any]:
        means, summed = super().reduce(wire, gradients, riders)
        if wire.replicas > 1:
            large = set(self.large(gradients))
            for place, gradient in enumerate(gradients):
                if place not in large and not hasattr(gradient, "indices"):
                    means[place] = self._with_momentum(wire, place, means[place])
        return means, summed

    def combine(self, wire: Wire, places: Sequence[int], gradients: Sequence[Any]) -> list[Any]:
        import tensorflow as tf

        with tf.name_scope("exchange/encode"):
            flat = joined(gradients)
            gradient = clipped(flat, self._clip / math.sqrt(wire.replicas)) if self._clip else flat
            velocity = self._feedback.residual(wire, VELOCITY, flat.shape)
            moved = velocity * self._momentum + gradient
            corrected = self._feedback.correct(wire, RESIDUAL, moved)
        mean, moved_left, left = self._staged(wire, moved, corrected)
        with tf.name_scope("exchange/encode"):
            self._feedback.keep(wire, VELOCITY, moved_left, tf.zeros([]))
            self._feedback.keep(wire, RESIDUAL, left, tf.zeros([]))
        with tf.name_scope("exchange/decode"):
            return parted(mean, gradients)

    def settle(self, replica: int, skipped: Any) -> None:
        self._feedback.settle(replica, skipped)

    def _staged(self, wire: Wire, moved: Any, corrected: Any) -> tuple[Any, Any, Any]:
        """`_send` with the number of elements of the stage that this step is in."""
        import tensorflow as tf

        if not self._warm_up:
            return self._send(wire, moved, corrected, self._ratio)
        ends, ratios = stages(self._ratio, self._warm_up)
        step = self.kept(wire, "step", [])
        stage = tf.reduce_sum(tf.cast(tf.greater_equal(step, tf.constant(ends, tf.float32)), tf.int32))
        step.assign(tf.minimum(step + 1.0, float(self._warm_up)))

        def branch(number: int) -> Callable[[], tuple[Any, Any, Any]]:
            last = number == len(ratios) - 1
            return lambda: self._send(wire.sometimes(float(last)), moved, corrected, ratios[number])

        found: tuple[Any, Any, Any] = tf.switch_case(stage, [branch(number) for number in range(len(ratios))])
        return found

    def _send(self, wire: Wire, moved: Any, corrected: Any, ratio: float) -> tuple[Any, Any, Any]:
        """The mean of what all send, and this replica's velocity and accumulated gradient without what it has sent."""
        import tensorflow as tf

        elements = int(corrected.shape[0])
        with tf.name_scope("exchange/encode"):
            indices, values = largest(corrected, how_many(elements, ratio))
            words = as_words(indices, values)
        gathered = wire.gather(words)
        with tf.name_scope("exchange/decode"):
            return sum_of(gathered, elements), without(moved, indices), without(corrected, indices)

    def _with_momentum(self, wire: Wire, place: int, mean: Any) -> Any:
        import tensorflow as tf

        key = f"momentum/{place}"
        moved = self._feedback.residual(wire, key, mean.shape) * self._momentum + mean
        self._feedback.keep(wire, key, moved, tf.zeros([]))
        return moved


def stages(ratio: float, warm_up: int) -> tuple[list[int], list[float]]:
    """Steps at which the stages of the warm-up end, and the share sent in each stage, `ratio` after the last."""
    denser = [each for each in WARM_UP_RATIOS if each > ratio]
    ends = [round(warm_up * (number + 1) / len(denser)) for number in range(len(denser))]
    return ends, [*denser, ratio]


def clipped(vector: Any, limit: float) -> Any:
    """The vector, shortened to the norm `limit` where it is longer; a norm that is not finite makes it NaN."""
    import tensorflow as tf

    norm = tf.norm(vector)
    return vector * tf.where(tf.math.is_finite(norm), tf.minimum(1.0, limit / norm), norm * 0.0)
