"""A toy model that does not fit into any memory."""

from typing import Any

import tensorflow as tf
from toy_model import ToyModel
from toy_workload import ToyShape

from tfscale.suite.workload import BuildContext


class Huge(ToyModel):
    def loss(self, batch: dict[str, Any], training: bool) -> Any:
        wide = tf.stop_gradient(tf.fill([1 << 46], batch["number"][0, 0]))
        return super().loss(batch, training) + tf.reduce_max(tf.math.top_k(wide)[0])


def build(shape: ToyShape, context: BuildContext) -> Huge:
    return Huge(shape, context)
