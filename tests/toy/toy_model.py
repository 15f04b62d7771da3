"""The model and the input of the toy workload. Imports TensorFlow."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from toy_workload import SGD, ToyShape

from tfscale.suite.workload import BuildContext, random


class ToyModel:
    def __init__(self, shape: ToyShape, context: BuildContext) -> None:
        create = context.embedding_variable or tf.Variable
        table = random(context.seed, 99).normal(size=(shape.rows, shape.width)).astype(np.float32)
        self.table = create(table, name="table")
        self.hidden = keras.layers.Dense(
            shape.hidden, activation="relu", kernel_initializer=keras.initializers.GlorotUniform(seed=context.seed)
        )
        self.out = keras.layers.Dense(
            1, dtype="float32", kernel_initializer=keras.initializers.GlorotUniform(seed=context.seed + 1)
        )
        self.hidden.build((None, shape.width + 4))
        self.out.build((None, shape.hidden))
        layers = [*self.hidden.trainable_variables, *self.out.trainable_variables]
        self.variables = [self.table, *layers]

    def loss(self, batch: dict[str, Any], training: bool) -> Any:
        rows = tf.reduce_sum(tf.nn.embedding_lookup(self.table, batch["row"]), axis=1)
        x = tf.concat([batch["number"], tf.cast(rows, tf.float32)], axis=1)
        predicted = tf.squeeze(self.out(self.hidden(x)), axis=1)
        return tf.reduce_mean(tf.square(tf.cast(predicted, tf.float32) - batch["label"]))


def build(shape: ToyShape, context: BuildContext) -> ToyModel:
    return ToyModel(shape, context)


def dataset(shape: ToyShape, directory: str, *, input: Any, seed: int, shards: int, index: int, batch: int) -> Any:
    """Shard `index` of the synthetic samples, as if it came from files."""
    data = SGD.synthetic("tiny", seed=seed, index=0, batch=batch * shards, options={})
    part = {name: value[index * batch : (index + 1) * batch] for name, value in data.items()}
    return tf.data.Dataset.from_tensors(part).repeat()
