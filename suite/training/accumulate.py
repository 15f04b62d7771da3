"""Loss and gradients of one replica: over its whole batch at once, or over micro-batches whose gradients are summed."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfscale.suite.workload import Batch, Model

LossAndGradients = tuple[Any, list[Any]]


def differentiate(model: Model, batch: Batch, factor: Any, variables: Sequence[Any]) -> LossAndGradients:
    """The mean loss over `batch`, and the gradients of `factor` times it.

    Raises ValueError, naming a variable, when the loss does not depend on it.
    """
    with tf.GradientTape() as tape:
        loss = model.loss(batch, training=True)
        scaled = loss * factor
    gradients = tape.gradient(scaled, variables)
    for variable, gradient in zip(variables, gradients, strict=True):
        if gradient is None:
            raise ValueError(f"the loss does not depend on variable {variable.name}")
    return loss, [_with_known_shape(g, v) for g, v in zip(gradients, variables, strict=True)]


def _with_known_shape(gradient: Any, variable: Any) -> Any:
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.IndexedSlices(gradient.values, gradient.indices, tf.constant(variable.shape.as_list(), tf.int64))


def accumulate(one: Callable[[Batch], LossAndGradients], batch: Batch, parts: int) -> LossAndGradients:
    """Sums over `parts` equal micro-batches, taken in order from `batch`: of losses, and of gradients.

    The first is differentiated on its own and starts the sums; the others run in one loop, one after the other, so
    that memory holds the activations of one micro-batch. Rows of sparse gradients are put together, not added up.
    """
    if parts == 1:
        return one(batch)
    loss, gradients = one(_part(batch, 0, parts))
    sums = [_Rows(g, parts) if isinstance(g, tf.IndexedSlices) else _Dense(g) for g in gradients]

    def body(index: Any, total: Any, state: list[Any]) -> tuple[Any, Any, list[Any]]:
        loss, gradients = one(_part(batch, index, parts))
        added = [s.add(held, g, index) for s, held, g in zip(sums, state, gradients, strict=True)]
        return index + 1, total + loss, added

    _, total, state = tf.while_loop(
        lambda index, *_: index < parts,
        body,
        (tf.constant(1), loss, [s.start for s in sums]),
        parallel_iterations=1,
        maximum_iterations=parts - 1,
    )
    return total, [s.result(held) for s, held in zip(sums, state, strict=True)]


def _part(batch: Batch, index: Any, parts: int) -> Batch:
    """Micro-batch number `index`: rows [index * size, (index + 1) * size) of every feature."""
    taken = {}
    for name, value in batch.items():
        size = value.shape[0] // parts
        begin = tf.stack([index * size] + [0] * (value.shape.rank - 1))
        taken[name] = tf.ensure_shape(tf.slice(value, begin, [size, *value.shape[1:]]), [size, *value.shape[1:]])
    return taken


class _Dense:
    """The running sum of one dense gradient."""

    def __init__(self, first: Any) -> None:
        self.start = first

    def add(self, held: Any, gradient: Any, index: Any) -> Any:
        return held + gradient

    def result(self, held: Any) -> Any:
        return held


class _Rows:
    """The rows of one sparse gradient, collected over the micro-batches (all of the same number)."""

    def __init__(self, first: Any, parts: int) -> None:
        self._shape = first.dense_shape
        self.start = [self._array(part, parts) for part in (first.values, first.indices)]

    @staticmethod
    def _array(first: Any, parts: int) -> Any:
        array = tf.TensorArray(first.dtype, size=parts, element_shape=first.shape)
        return array.write(0, first)

    def add(self, held: list[Any], gradient: Any, index: Any) -> list[Any]:
        return [held[0].write(index, gradient.values), held[1].write(index, gradient.indices)]

    def result(self, held: list[Any]) -> Any:
        values, indices = (_flat(array.stack()) for array in held)
        return tf.IndexedSlices(values, indices, self._shape)


def _flat(stacked: Any) -> Any:
    """[parts, rows, ...] -> [parts * rows, ...]."""
    shape = stacked.shape
    return tf.reshape(stacked, [shape[0] * shape[1], *shape[2:]])
