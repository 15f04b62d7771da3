"""QSGD with 8-bit codes (Alistarh et al. 2017, arXiv 1610.02132): rounded up or down at random, right on average.

Each bucket is divided by its largest magnitude, times 127, and rounded up with a probability of what is over. The
largest magnitude and not the paper's 2-norm: the norm of a bucket of 512 is about 7 times its largest element, so that
most of the 127 levels would never be used, and the variance be some 50 times as large.
"""

import math
from collections.abc import Callable
from typing import Any

from tfscale.suite.exchange import noise
from tfscale.suite.exchange.coded import Coded
from tfscale.suite.exchange.compiled import compiled
from tfscale.suite.exchange.packing import BYTES, floats_of, in_groups, pack_bytes, unpack_bytes, words_of
from tfscale.suite.exchange.wire import Wire

LEVELS = 127
TINY = 1e-30
"""A bucket with nothing larger is sent as zeros: its scale and the inverse would leave float32's range."""


class Int8(Coded):
    """`int8`, `int8(bucket=512)`: `bucket` elements share a scale; `seed` starts the rounding's random numbers.

    Unbiased, so nothing is kept back. An infinity or NaN makes its whole bucket NaN.
    """

    name = "int8"
    tolerance = 2.0 / LEVELS  # a level each time that a sum is encoded: at its sender, and in parts once more

    def __init__(self, bucket: int = 512, seed: int = 0) -> None:
        super().__init__(bucket, BYTES)
        self._seed = noise.checked_seed(seed)

    def encode(self, wire: Wire, flat: Any, groups: int) -> Any:
        drawn = self.kept(wire, "drawn", [])
        number = drawn.read_value()
        drawn.assign_add(1.0)
        values = in_groups(flat, [BYTES, self.bucket // BYTES], groups)
        return compiled(encode)(values, number, self._seed, wire.replica)

    @property
    def decode(self) -> Callable[[Any], Any]:
        return decode


def encode(values: Any, number: Any, seed: int, replica: int) -> Any:
    """A float32 vector as words [groups, l + 1]: four codes a word, then the bucket's scale.

    Args:
        values: float32 [groups, 4, l].
        number: float32 scalar, how often this replica has encoded before.
        seed, replica: with `number` they select the random numbers.
    """
    import tensorflow as tf

    shape = [int(size) for size in values.shape]
    bucket = BYTES * shape[2]
    lanes = math.gcd(bucket, 16)
    # As integers, magnitudes keep their order, and a NaN is above all of them.
    magnitudes = words_of(tf.abs(tf.reshape(values, [shape[0], bucket // lanes, lanes])))
    largest = floats_of(tf.reduce_max(tf.reduce_max(magnitudes, 1), 1))
    inverse = tf.where(largest > TINY, LEVELS / largest, tf.zeros_like(largest))
    key = noise.key_of(seed, replica, tf.cast(number, tf.int32))
    level = tf.floor(values * inverse[:, None, None] + noise.uniform(shape, key))
    codes = tf.cast(tf.clip_by_value(level, -LEVELS, LEVELS), tf.int32)
    return tf.concat([pack_bytes(codes), words_of(largest / LEVELS)[:, None]], 1)


def decode(words: Any) -> Any:
    """float32 [..., 4, l] from words [..., l + 1]."""
    import tensorflow as tf

    scale = floats_of(words[..., -1])
    return tf.cast(unpack_bytes(words[..., :-1]), tf.float32) * scale[..., None, None]
