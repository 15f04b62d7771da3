"""The DLRM model: embedding tables, bottom MLP, pairwise dot products, top MLP."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfscale.suite.workload import Batch, BuildContext
from tfscale.workloads.layers import Dense, Gradient, Initializers, Tensor, compute_dtype, variables, with_gradient
from tfscale.workloads.recommender.spec import RecommenderShape

CHUNK = 1 << 16
"""Rows of a table that are drawn from one seed, so that a shard of a table starts as that part of the whole would."""


def build(shape: RecommenderShape, context: BuildContext) -> "Dlrm":
    return Dlrm(shape, context)


class Dlrm:
    """DLRM; all weights exist once it is constructed. `variables` lists a sharded table's shards one by one.

    There are no blocks to recompute and no dropout: `context.recompute` and `context.dropout` change nothing.
    """

    def __init__(self, shape: RecommenderShape, context: BuildContext) -> None:
        self.shape = shape
        self.compute_dtype = compute_dtype()
        init = Initializers(context.seed)
        create = context.embedding_variable or tf.Variable
        self.tables = [
            _table(create, f"embedding_{number}", rows, shape.width, init.next_seed())
            for number, rows in enumerate(shape.tables)
        ]
        self.bottom = [_layer(*sizes, tf.nn.relu, init) for sizes in shape.bottom_layers]
        *hidden, last = shape.top_layers
        self.top = [*(_layer(*sizes, tf.nn.relu, init) for sizes in hidden), _layer(*last, None, init)]
        shards = [shard for table in self.tables for shard in getattr(table, "variables", [table])]
        self.variables = [*shards, *variables(*self.bottom, *self.top)]

    def loss(self, batch: Batch, training: bool) -> Tensor:
        """Mean binary cross-entropy."""
        logits = self.logits(batch, training)
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=batch["label"], logits=logits))

    def logits(self, batch: Batch, training: bool) -> Tensor:
        """[batch], float32; `training` changes nothing."""
        del training
        x = tf.cast(batch["dense"], self.compute_dtype)
        for layer in self.bottom:
            x = layer(x)
        columns = tf.unstack(batch["indices"], axis=1)
        rows = [
            tf.cast(tf.nn.embedding_lookup(table, column), self.compute_dtype)
            for table, column in zip(self.tables, columns, strict=True)
        ]
        y = tf.concat([x, interaction(tf.stack([x, *rows], axis=1))], axis=1)
        for layer in self.top:
            y = layer(y)
        return tf.cast(tf.reshape(y, [-1]), tf.float32)


@with_gradient
def interaction(z: Tensor) -> tuple[Tensor, Gradient]:
    """The dot products of all pairs of the vectors z [batch, n, width]: [batch, n (n - 1) / 2].

    Backward is one gather and one product, (G + G^T) z, where the derived gradient scatters and multiplies twice.
    """
    n = z.shape[1]
    first, second = np.tril_indices(n, -1)
    products = tf.matmul(z, z, transpose_b=True)
    pairs = tf.gather(tf.reshape(products, [-1, n * n]), first * n + second, axis=1)

    def gradient(dpairs: Tensor) -> Tensor:
        # Column 0 is the zero of the diagonal; pair p is column p + 1, and fills both of its places.
        places = np.zeros((n, n), np.int32)
        places[first, second] = places[second, first] = 1 + np.arange(len(first))
        padded = tf.pad(dpairs, [[0, 0], [1, 0]])
        return tf.matmul(tf.reshape(tf.gather(padded, places.ravel(), axis=1), [-1, n, n]), z)

    return pairs, gradient


def _layer(inputs: int, outputs: int, activation: Callable[[Tensor], Tensor] | None, init: Initializers) -> Dense:
    """A dense layer with the initial weights of the published code."""
    kernel, bias = init.normal(math.sqrt(2 / (inputs + outputs))), init.normal(math.sqrt(1 / outputs))
    return Dense(inputs, outputs, kernel, bias, activation)


def _table(create: Callable[..., Any], name: str, rows: int, width: int, seed: int) -> Any:
    """An embedding table with uniform initial values in +- sqrt(1 / rows), as in the published code."""
    bound = math.sqrt(1 / rows)

    def initial_value(
        partition_shape: tuple[int, int] | None = None, partition_offset: tuple[int, int] | None = None
    ) -> Tensor:
        # A strategy that shards passes the part that it wants.
        first = partition_offset[0] if partition_offset else 0
        last = first + (partition_shape[0] if partition_shape else rows)
        chunks = []
        for start in range(first - first % CHUNK, last, CHUNK):
            chunk = tf.random.stateless_uniform([min(CHUNK, rows - start), width], [seed, start], -bound, bound)
            chunks.append(chunk[max(first - start, 0) : last - start])
        return tf.concat(chunks, axis=0)

    return create(initial_value, name=name, shape=[rows, width], dtype=tf.float32, trainable=True)
