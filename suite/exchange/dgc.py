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
from tfscale.suite.exchange.compiled import compiled
from tfscale.suite.exchange.dense import DenseExchange, joined, parted
from tfscale.suite.exchange.feedback import Feedback
from tfscale.suite.exchange.selection import as_words, forget, how_many, largest, sum_of
from tfscale.suite.exchange.topk import DENSEST
from tfscale.suite.exchange.wire import Wire

VELOCITY, WAITING = "velocity", "waiting"
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
            velocity, waiting = (self._feedback.residual(wire, name, flat.shape) for name in (VELOCITY, WAITING))
            # u = momentum u + g; v = v + u, in place: TensorFlow's momentum step at a learning rate of -1.
            tf.raw_ops.ResourceApplyMomentum(
                var=waiting.handle, accum=velocity.handle, lr=-1.0, grad=gradient, momentum=self._momentum
            )
        mean = self._staged(wire, velocity, waiting)
        with tf.name_scope("exchange/decode"):
            return parted(mean, gradients)

    def settle(self, replica: int, skipped: Any) -> None:
        self._feedback.settle(replica, skipped)

    def _staged(self, wire: Wire, velocity: Any, waiting: Any) -> Any:
        """`_sent` with the share of the stage that this step is in."""
        import tensorflow as tf

        if not self._warm_up:
            return _sent(wire, velocity, waiting, self._ratio)
        ends, ratios = stages(self._ratio, self._warm_up)
        step = self.kept(wire, "step", [])
        stage = tf.reduce_sum(tf.cast(tf.greater_equal(step, tf.constant(ends, tf.float32)), tf.int32))

        def branch(number: int) -> Callable[[], Any]:
            last = number == len(ratios) - 1
            return lambda: _sent(wire.sometimes(float(last)), velocity, waiting, ratios[number])

        mean = tf.switch_case(stage, [branch(number) for number in range(len(ratios))])
        step.assign(tf.minimum(step + 1.0, float(self._warm_up)))
        return mean

    def _with_momentum(self, wire: Wire, place: int, mean: Any) -> Any:
        import tensorflow as tf

        key = f"momentum/{place}"
        moved = self._feedback.residual(wire, key, mean.shape) * self._momentum + mean
        self._feedback.keep(wire, key, moved, tf.zeros([]))
        return moved


def _sent(wire: Wire, velocity: Any, waiting: Any, ratio: float) -> Any:
    """The sum of what all replicas send, that share of what is waiting; it is taken out of both variables."""
    import tensorflow as tf

    elements = int(waiting.shape[0])
    with tf.name_scope("exchange/encode"):
        indices, values = largest(waiting.read_value(), how_many(elements, ratio))
        words = as_words(indices, values)
        with tf.control_dependencies([words]):
            forget([velocity, waiting], indices)
    gathered = wire.gather(words)
    with tf.name_scope("exchange/decode"):
        return compiled(sum_of)(gathered, elements)


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
