"""Codes of fewer than 32 bits in int32 words: no collective of TensorFlow takes int8, and gathering takes no bfloat16.

A word takes its codes from rows of equal length, not from neighbours: word l of a group holds element l of each of its
rows. Packing is then a few whole-row shifts, which every vector unit does fast, and no element changes its lane.
"""

import math
from collections.abc import Sequence
from typing import Any

BYTES = 4
"""Rows of 8-bit codes in a word."""
BITS = 32
"""Rows of 1-bit codes in a word."""
WORD_BYTES = 4


def groups_of(elements: int, size: int) -> int:
    """Groups of `size` elements that hold `elements`, the last one filled up with zeros."""
    return math.ceil(elements / size)


def in_groups(flat: Any, shape: Sequence[int], least: int = 1) -> Any:
    """A flat vector as [groups, *shape], filled up with zeros to whole groups, and to at least `least` of them.

    Not to be compiled: XLA would ask of each element again and again whether it is one of the zeros.
    """
    import tensorflow as tf

    size = math.prod(shape)
    elements = int(flat.shape[0])
    groups = max(least, groups_of(elements, size))
    missing = groups * size - elements
    if missing:
        flat = tf.concat([flat, tf.zeros([missing], flat.dtype)], 0)
    return tf.reshape(flat, [groups, *shape])


def flat_of(groups: Any, elements: int) -> Any:
    """The first `elements` of what `in_groups` made, as a flat vector; outside of XLA it shares the memory."""
    import tensorflow as tf

    return tf.slice(tf.reshape(groups, [-1]), [0], [elements])


def pack_bytes(codes: Any) -> Any:
    """int32 codes in -128..127, [..., 4, l], as int32 words [..., l]."""
    import tensorflow as tf

    return _join(tf.bitwise.bitwise_and(codes, 0xFF), BYTES, 8)


def unpack_bytes(words: Any) -> Any:
    """int32 codes [..., 4, l] from int32 words [..., l]."""
    import tensorflow as tf

    up = _rows([24, 16, 8, 0])
    # Shifting a signed word down copies its sign, which is the sign of the code.
    return tf.bitwise.right_shift(tf.bitwise.left_shift(tf.expand_dims(words, -2), up), 24)


def pack_bits(bits: Any) -> Any:
    """int32 bits, each 0 or 1, [..., 32, l], as int32 words [..., l]."""
    return _join(bits, BITS, 1)


def unpack_bits(words: Any) -> Any:
    """int32 bits [..., 32, l] from int32 words [..., l]."""
    import tensorflow as tf

    down = _rows(list(range(BITS)))
    return tf.bitwise.bitwise_and(tf.bitwise.right_shift(tf.expand_dims(words, -2), down), 1)


def words_of(floats: Any) -> Any:
    """float32 as int32 words of the same bits."""
    import tensorflow as tf

    return tf.bitcast(floats, tf.int32)


def floats_of(words: Any) -> Any:
    """float32 from int32 words of the same bits."""
    import tensorflow as tf

    return tf.bitcast(words, tf.float32)


def _join(rows: Any, count: int, bits: int) -> Any:
    import tensorflow as tf

    # No two rows share a bit, so their sum is their union. XLA makes one fast loop of it, not so of 32 unions.
    return tf.reduce_sum(tf.bitwise.left_shift(rows, _rows([bits * place for place in range(count)])), -2)


def _rows(shifts: list[int]) -> Any:
    """One shift a row, to be broadcast over [..., rows, l]."""
    import tensorflow as tf

    return tf.constant(shifts, tf.int32)[:, tf.newaxis]
