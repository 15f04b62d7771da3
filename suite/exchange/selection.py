"""Finding the elements of largest magnitude in a vector of millions, and sending them as pairs of index and value.

Sorting everything takes seconds. A sample gives a magnitude that somewhat more than enough elements reach; only those
are then sorted, so what is found is exactly the largest ones, unless the sample was misleading: then fewer than enough
reach it, and the slots that are left travel empty. Error feedback brings up in the next step what was missed.
"""

from collections.abc import Sequence
from typing import Any

from tfscale.suite.exchange.compiled import compiled
from tfscale.suite.exchange.packing import floats_of, words_of

SAMPLED = 2048
"""Elements of the sample that should be among the largest: their number then deviates by 1 / sqrt(2048) = 2 %."""
MARGIN = 1.25
"""How many times as many elements as are sent the threshold should let pass: 11 of those deviations."""
TINY = 2.0**-126
"""The smallest normal float32: zeros are not worth sending, however few elements are anything else."""
MOST = 2**31 - 1
"""Elements that an int32 index can tell apart."""


def how_many(elements: int, ratio: float) -> int:
    """Elements sent of so many: at least 1. Raises ValueError when int32 cannot number them."""
    if elements > MOST:
        raise ValueError(f"a vector of {elements} elements: int32 indices number {MOST} at most")
    return max(1, round(ratio * elements))


def stride_of(count: int) -> int:
    """Every how manieth element is in the sample. Odd, so that it meets all columns of the usual matrix widths."""
    return max(1, count // SAMPLED) | 1


def largest(vector: Any, count: int) -> tuple[Any, Any]:
    """int32 indices and float32 values, [count] each, of the elements of largest magnitude. Of equals, the first.

    A NaN counts as infinite, so that it is sent and seen. An empty slot has the value 0 and an index that is there
    already. `count` is less than half of the vector's length.
    """
    import tensorflow as tf

    stride = stride_of(count)
    sample = magnitude(vector[::stride])
    if stride == 1:
        candidates, reached = tf.range(int(vector.shape[0])), sample
    else:
        in_sample = min(int(sample.shape[0]), round(MARGIN * count / stride))
        threshold = tf.reduce_min(tf.math.top_k(sample, in_sample, sorted=False).values)
        reach = compiled(reaching)(vector, tf.maximum(threshold, TINY))
        found = tf.cast(tf.squeeze(tf.where(reach), 1), tf.int32)
        missing = [[0, tf.maximum(0, count - tf.size(found))]]
        candidates = tf.pad(found, missing)
        reached = tf.pad(magnitude(tf.gather(vector, found)), missing, constant_values=-1.0)
    best = tf.math.top_k(reached, count, sorted=False)
    real = tf.greater_equal(best.values, 0.0)
    indices = tf.gather(candidates, best.indices)
    indices = tf.where(real, indices, tf.reduce_max(indices))
    return indices, tf.where(real, tf.gather(vector, indices), 0.0)


def magnitude(values: Any) -> Any:
    """Absolute values, and infinity for NaN, which has no place in an order."""
    import tensorflow as tf

    return tf.where(tf.math.is_nan(values), tf.constant(float("inf")), tf.abs(values))


def reaching(vector: Any, threshold: Any) -> Any:
    """Which elements have at least that magnitude, or are NaN."""
    import tensorflow as tf

    return tf.logical_not(tf.less(tf.abs(vector), threshold))


def forget(variables: Sequence[Any], indices: Any) -> None:
    """Set those elements of the variables, flat vectors, to 0."""
    import tensorflow as tf

    for variable in variables:
        zeros = tf.zeros(indices.shape)
        tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=indices, updates=zeros)


def as_words(indices: Any, values: Any) -> Any:
    """One int32 vector: the indices, then the bits of the values. 8 bytes an element."""
    import tensorflow as tf

    return tf.concat([indices, words_of(values)], 0)


def sum_of(gathered: Any, elements: int) -> Any:
    """The dense sum, [elements], of what replicas sent: [replicas, 2 count] of `as_words`. To be compiled.

    Replica by replica: a single scatter of all may add in any order on a GPU, and replicas would drift apart.
    """
    import tensorflow as tf

    total = tf.zeros([elements])
    for words in tf.unstack(gathered):
        indices, bits = tf.split(words, 2)
        total = tf.tensor_scatter_nd_add(total, indices[:, tf.newaxis], floats_of(bits))
    return total
