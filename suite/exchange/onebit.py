"""EF-signSGD (Karimireddy et al. 2019, arXiv 1901.09847): signs, a scale for each bucket, and error feedback.

What travels of a bucket of d elements p is sign(p) times |p|_1 / d, and the sign of 0 is plus. The paper takes one
scale a layer, of gradients times learning rates; here it is one a bucket of the joint vector, of gradients alone, so
that any rule can follow. In parts, the sums are encoded with an error feedback of their own.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tfscale.suite.exchange.coded import Coded
from tfscale.suite.exchange.compiled import compiled
from tfscale.suite.exchange.feedback import Feedback, left
from tfscale.suite.exchange.packing import BITS, floats_of, in_groups, pack_bits, unpack_bits, words_of
from tfscale.suite.exchange.wire import Wire


class OneBit(Coded):
    """`onebit`, `onebit(bucket=1024)`: `bucket` elements share a scale. An infinity or NaN fills its whole bucket."""

    name = "onebit"
    tolerance = 2.0**-16  # equal elements are sent as they are, but for the rounding of their mean

    def __init__(self, bucket: int = 1024) -> None:
        super().__init__(bucket, BITS)
        self._feedback = Feedback(self)

    def encode(self, wire: Wire, flat: Any, groups: int) -> Any:
        key = self._feedback.key(wire)
        values = in_groups(flat, [BITS, self.bucket // BITS], groups)
        residual = self._feedback.residual(wire, key, values.shape)
        words, new = compiled(encode)(values, residual.read_value(), int(flat.shape[0]))
        residual.assign(new)
        return words

    def settle(self, replica: int, skipped: Any) -> None:
        self._feedback.settle(replica, skipped)

    @property
    def decode(self) -> Callable[[Any], Any]:
        return decode


def encode(values: Any, residual: Any, elements: int) -> tuple[Any, Any]:
    """A float32 vector and what is left of earlier ones as words [groups, l + 1], and what is left now.

    Args:
        values, residual: float32 [groups, 32, l].
        elements: so many are gradients; what follows counts for nothing, neither in a scale nor in what is left.
    """
    import tensorflow as tf

    groups, _, length = shape = [int(size) for size in values.shape]
    bucket = BITS * length
    corrected = values + residual
    filled = np.clip(elements - bucket * np.arange(groups), 0, bucket)
    magnitude = tf.reduce_sum(tf.reduce_sum(tf.abs(corrected), 1), 1)
    scale = magnitude / np.maximum(filled, 1).astype(np.float32)
    negative = corrected < 0.0
    new = left(corrected, _signed(negative, scale))
    if elements < groups * bucket:
        new = tf.where(tf.reshape(tf.range(groups * bucket), shape) < elements, new, tf.zeros_like(new))
    return tf.concat([pack_bits(tf.cast(negative, tf.int32)), words_of(scale)[:, None]], 1), new


def decode(words: Any) -> Any:
    """float32 [..., 32, l] from words [..., l + 1]."""
    return _signed(unpack_bits(words[..., :-1]) > 0, floats_of(words[..., -1]))


def _signed(negative: Any, scale: Any) -> Any:
    """-scale where [..., 32, l] is true, else scale."""
    import tensorflow as tf

    spread = scale[..., None, None]
    return tf.where(negative, -spread, spread)
