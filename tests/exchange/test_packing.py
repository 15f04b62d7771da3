"""Words against NumPy's own views of the same bytes and bits."""

import numpy as np
import pytest

from tfscale.suite.exchange import packing

pytestmark = pytest.mark.tensorflow
tf = pytest.importorskip("tensorflow")


@pytest.mark.parametrize("length", [1, 3, 128])
def test_bytes(length: int) -> None:
    codes = np.random.default_rng(1).integers(-128, 128, size=(5, 4, length), dtype=np.int8)
    codes[0, :, 0] = [-128, -1, 127, 0]
    words = packing.pack_bytes(tf.constant(codes, tf.int32))
    expected = np.ascontiguousarray(codes.transpose(0, 2, 1)).view("<i4")[..., 0]
    np.testing.assert_array_equal(words, expected)
    np.testing.assert_array_equal(packing.unpack_bytes(words), codes)


@pytest.mark.parametrize("length", [1, 3, 32])
def test_bits(length: int) -> None:
    bits = np.random.default_rng(2).integers(0, 2, size=(5, 32, length), dtype=np.uint8)
    bits[0, :, 0] = 1
    words = packing.pack_bits(tf.constant(bits, tf.int32))
    expected = np.packbits(bits.transpose(0, 2, 1), axis=-1, bitorder="little").view("<i4")[..., 0]
    np.testing.assert_array_equal(words, expected)
    np.testing.assert_array_equal(packing.unpack_bits(words), bits)


@pytest.mark.parametrize(("elements", "least", "groups"), [(1, 1, 1), (31, 1, 4), (32, 1, 4), (33, 1, 5), (8, 3, 3)])
def test_groups_are_filled_up_with_zeros(elements: int, least: int, groups: int) -> None:
    flat = np.arange(1, elements + 1, dtype=np.float32)
    grouped = packing.in_groups(tf.constant(flat), [4, 2], least)
    assert grouped.shape == [groups, 4, 2]
    np.testing.assert_array_equal(packing.flat_of(grouped, elements), flat)
    assert np.count_nonzero(grouped) == elements


def test_floats_keep_their_bits() -> None:
    floats = np.array([0.0, -0.0, 1.5, np.inf, 1e-40], np.float32)
    np.testing.assert_array_equal(packing.words_of(tf.constant(floats)), floats.view(np.int32))
    np.testing.assert_array_equal(np.asarray(packing.floats_of(packing.words_of(floats))).view("i4"), floats.view("i4"))
