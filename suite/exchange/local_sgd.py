"""Local SGD: every replica trains on its own, and in every k-th step all take the mean of their weights.

Stich: "Local SGD Converges Fast and Communicates Little", ICLR 2019, arXiv 1805.09767. For links so slow that even
compressed gradients are too many. It is not the same training as with averaged gradients, and no faster way to do that:
between averages the replicas' weights differ, and with any rule but plain SGD so do its slots, which stay local.

The riders (loss, samples, control, overflow) still travel in every step: 16 bytes, so one latency a step, without which
ranks could neither stop together nor skip a step together.
"""

from collections.abc import Sequence
from typing import Any

from tfscale.suite.exchange.arguments import whole
from tfscale.suite.exchange.base import Exchange
from tfscale.suite.exchange.wire import Wire


class LocalSgd(Exchange):
    """`local_sgd` or `local_sgd(every=8)`. Bytes are reported as the mean over steps."""

    name = "local_sgd"
    exact = False
    drifts = True

    def __init__(self, every: int = 8) -> None:
        super().__init__()
        self._every = whole("every", every, least=2)
        self.cycle = self._every

    def reduce(self, wire: Wire, gradients: Sequence[Any], riders: Any) -> tuple[list[Any], Any]:
        """This replica's own gradients (its shares of the mean, times the replicas), and the summed riders."""
        if wire.replicas == 1:
            return list(gradients), riders
        (summed,) = wire.sum([riders], 0)
        return [_times(gradient, float(wire.replicas)) for gradient in gradients], summed

    def after_update(self, wire: Wire, variables: Sequence[Any], updates: Any) -> None:
        import tensorflow as tf

        if wire.replicas == 1:
            return
        now = wire.sometimes(1 / self._every)

        def average() -> Any:
            means = now.sum([variable * (1.0 / wire.replicas) for variable in variables])
            for variable, mean in zip(variables, means, strict=True):
                variable.assign(mean)
            return tf.ones([])

        # Updates are counted alike everywhere, so all replicas come here in the same step.
        tf.cond(tf.equal(updates % self._every, 0), average, lambda: tf.zeros([]))


def _times(gradient: Any, factor: float) -> Any:
    import tensorflow as tf

    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor
