"""Joining sparse gradients and taking them apart again."""

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from tfscale.suite.exchange.sparse import fuse  # noqa: E402

pytestmark = pytest.mark.tensorflow


def table(rows: list[int], width: int, height: int, start: float) -> Any:
    values = tf.reshape(tf.range(start, start + len(rows) * width, dtype=tf.float32), [len(rows), width])
    return tf.IndexedSlices(values, tf.constant(rows), tf.constant([height, width], tf.int64))


def test_tables_of_one_width_travel_together_and_come_back_apart() -> None:
    first = [table([0, 2], 3, 5, 0.0), tf.ones([4]), table([1, 1, 0], 3, 2, 100.0), table([3], 2, 4, 7.0)]
    second = [table([4, 4], 3, 5, 50.0), tf.ones([4]), table([0, 1, 1], 3, 2, 200.0), table([0], 2, 4, 9.0)]
    groups, others = fuse(first), fuse(second)
    assert [group.places for group in groups] == [(0, 2), (3,)]
    for group, other in zip(groups, others, strict=True):
        gathered = tf.IndexedSlices(
            tf.concat([group.slices.values, other.slices.values], 0),
            tf.concat([group.slices.indices, other.slices.indices], 0),
            group.slices.dense_shape,
        )
        for place, part in zip(group.places, group.split(gathered), strict=True):
            expected = tf.convert_to_tensor(first[place]) + tf.convert_to_tensor(second[place])
            np.testing.assert_array_equal(tf.convert_to_tensor(part), expected)


def test_rows_must_be_known() -> None:
    unknown = tf.TensorSpec([None, 3])
    with pytest.raises(ValueError, match="number of rows"):
        tf.function(
            lambda v: fuse([tf.IndexedSlices(v, tf.zeros(tf.shape(v)[:1], tf.int32))]), autograph=False
        ).get_concrete_function(unknown)
