"""A toy model that does not fit into any memory."""

from typing import Any

import tensorflow as tf
from toy_model import ToyModel
from toy_workload import ToyShape

from tfscale.suite.workload import BuildContext


class Huge(ToyModel):
    def loss(self, batch: dict[str, Any], training: bool) -> Any:
        wide = tf.reshape(self.table, [-1])[:1] * tf.random.normal([1 << 46])
        return super().loss(batch, training) + tf.reduce_mean(wide)


def build(shape: ToyShape, context: BuildContext) -> Huge:
    return Huge(shape, context)
