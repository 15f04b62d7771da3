"""A toy model with an operation that XLA cannot compile."""

from typing import Any

import tensorflow as tf
from toy_model import ToyModel
from toy_workload import ToyShape

from tfscale.suite.workload import BuildContext


class Dynamic(ToyModel):
    def loss(self, batch: dict[str, Any], training: bool) -> Any:
        text = tf.strings.as_string(tf.cast(batch["number"], tf.float32))
        return super().loss(batch, training) + tf.reduce_mean(tf.strings.to_number(text))


def build(shape: ToyShape, context: BuildContext) -> Dynamic:
    return Dynamic(shape, context)
