"""Deferring: small gradients are added up where they are, and travel in every k-th step only.

A small tensor costs a collective its latency, whatever its size. With g_t the mean gradient of step t, the steps in
between apply zero to those variables, and step k applies g_1 + ... + g_k: the sum, not the mean over steps, so that SGD
moves as far in k steps as without. The mean over replicas is exact; what differs is that g_2 to g_k are taken at
weights that have not moved yet. Momentum still moves a variable in the steps between, and under AdamW, which divides by
the root of the mean square, a sum of k in one step of k gives steps sqrt(k) times shorter. Clipping by the global norm
sees the small gradients in every k-th step only.

A skipped step forgets what was added up since the last travel.
"""

from collections.abc import Sequence
from typing import Any

from tfscale.suite.exchange.arguments import whole
from tfscale.suite.exchange.base import Exchange
from tfscale.suite.exchange.dense import joined, parted
from tfscale.suite.exchange.feedback import Feedback
from tfscale.suite.exchange.none import NoCompression
from tfscale.suite.exchange.wire import Wire

PENDING = "pending"


class Deferred(Exchange):
    """`deferred` or `deferred(small=65536, every=4)`: dense gradients of fewer elements than `small` travel every k-th step.

    All others, and the sparse ones, travel as in `none`. Bytes are reported as the mean over steps.
    """

    name = "deferred"
    exact = False

    def __init__(self, small: int = 65536, every: int = 4) -> None:
        super().__init__()
        self._small = whole("small", small)
        self._every = whole("every", every, least=2)
        self.cycle = self._every
        self._rest = NoCompression()
        self._feedback = Feedback(self)

    def reduce(self, wire: Wire, gradients: Sequence[Any], riders: Any) -> tuple[list[Any], Any]:
        if wire.replicas == 1:
            return list(gradients), riders
        small = [
            place
            for place, gradient in enumerate(gradients)
            if not hasattr(gradient, "indices") and int(gradient.shape.num_elements()) < self._small
        ]
        others = [place for place in range(len(gradients)) if place not in set(small)]
        rest, summed = self._rest.reduce(wire, [gradients[place] for place in others], riders)
        means = dict(zip(others, rest, strict=True))
        if small:
            means.update(zip(small, self._deferred(wire, [gradients[place] for place in small]), strict=True))
        return [means[place] for place in range(len(gradients))], summed

    def settle(self, replica: int, skipped: Any) -> None:
        self._feedback.settle(replica, skipped)

    def _deferred(self, wire: Wire, gradients: Sequence[Any]) -> list[Any]:
        """Means of what was added up, in every k-th step, else zeros."""
        import tensorflow as tf

        flat = joined(gradients)
        pending = self._feedback.residual(wire, PENDING, flat.shape)
        total = pending + flat
        steps = self.kept(wire, "steps", [])
        step = steps + 1.0
        # The same on every replica, as all count all steps: they meet in the collective or none of them comes to it.
        due = tf.greater_equal(step, float(self._every))
        now = wire.sometimes(1 / self._every)
        mean = tf.cond(due, lambda: now.sum([total], 0)[0], lambda: tf.zeros_like(total))
        pending.assign(tf.where(due, tf.zeros_like(total), total))
        steps.assign(tf.where(due, 0.0, step))
        return parted(mean, gradients)
