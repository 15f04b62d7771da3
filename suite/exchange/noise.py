"""Random bits for encoders: a hash of the element's number and a key, the same for the same key on every machine.

A hash because it is a few integer operations an element, in any order; TensorFlow's own stateless generators (ten
rounds of Philox) cost more than all of the encoding. It is no generator for statistics at large: it serves to round up
or down, and to pick coordinates.
"""

import math
from typing import Any


def checked_seed(seed: object) -> int:
    """`seed`, or TypeError where it is no integer of 31 bits."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31:
        raise TypeError(f"seed is {seed!r}, and must be an integer from 0 to 2^31 - 1")
    return seed


def key_of(*numbers: Any) -> Any:
    """A uint32 scalar that depends on each number (int32 scalars, tensors or not) and on their order."""
    import tensorflow as tf

    key = tf.constant(0x243F6A88, tf.uint32)
    for number in numbers:
        key = _mixed(key + tf.cast(number, tf.uint32) * tf.constant(0x9E3779B1, tf.uint32))
    return key


def bits(shape: list[int], key: Any) -> Any:
    """uint32 of that shape, uniform over all 32 bits; fewer than 2^31 elements."""
    import tensorflow as tf

    number = tf.cast(tf.reshape(tf.range(math.prod(shape)), shape), tf.uint32)
    # Exclusive or, not a sum: two keys give no shifted copies of one sequence.
    return _mixed(tf.bitwise.bitwise_xor(number * tf.constant(0x9E3779B1, tf.uint32), key))


def uniform(shape: list[int], key: Any) -> Any:
    """float32 in (0, 1) of that shape: (k + 1/2) / 2^16, k of 16 bits, so the mean is 1/2 exactly."""
    import tensorflow as tf

    high = tf.cast(tf.bitwise.right_shift(bits(shape, key), tf.constant(16, tf.uint32)), tf.int32)
    return (tf.cast(high, tf.float32) + 0.5) * 2.0**-16


def below(limit: int, shape: list[int], key: Any) -> Any:
    """int32 in 0..limit-1 of that shape, equally likely up to limit / 2^31; limit below 2^31."""
    import tensorflow as tf

    positive = tf.cast(tf.bitwise.right_shift(bits(shape, key), tf.constant(1, tf.uint32)), tf.int32)
    return tf.math.floormod(positive, limit)


def _mixed(h: Any) -> Any:
    """The finaliser of MurmurHash3 (Appleby): every bit of the input changes each bit of the output half of the time."""
    import tensorflow as tf

    def shifted(value: Any, by: int) -> Any:
        return tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, tf.constant(by, tf.uint32)))

    h = shifted(h, 16) * tf.constant(0x85EBCA6B, tf.uint32)
    h = shifted(h, 13) * tf.constant(0xC2B2AE35, tf.uint32)
    return shifted(h, 16)
