"""Norms, clipping and learning-rate rules."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from tfscale.suite.training.optimizers import clip_scale, global_norm, scaled_learning_rate, summed_rows  # noqa: E402

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(("rule", "factor", "expected"), [("none", 8, 0.1), ("linear", 8, 0.8), ("sqrt", 16, 0.4)])
def test_learning_rate_scales_with_the_batch(rule: str, factor: int, expected: float) -> None:
    assert scaled_learning_rate(0.1, rule, factor) == pytest.approx(expected)


def test_unknown_rule_is_named() -> None:
    with pytest.raises(ValueError, match="'cube' is not known"):
        scaled_learning_rate(0.1, "cube", 2)


def test_duplicate_rows_are_summed_once() -> None:
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0], [4.0]]), tf.constant([5, 1, 5]), tf.constant([8, 1]))
    rows, values = summed_rows(slices)
    assert dict(zip(rows.numpy().tolist(), values.numpy().ravel().tolist(), strict=True)) == {5: 5.0, 1: 2.0}


def test_norm_of_sparse_is_that_of_the_dense_gradient() -> None:
    slices = tf.IndexedSlices(tf.constant([[3.0], [1.0]]), tf.constant([0, 0]), tf.constant([2, 1]))
    assert float(global_norm([slices, tf.constant([3.0])])) == pytest.approx(5.0)


def test_clipping_keeps_small_gradients_and_scales_large_ones() -> None:
    assert float(clip_scale([tf.constant([0.3, 0.4])], 1.0)) == 1.0
    assert float(clip_scale([tf.constant([3.0, 4.0])], 1.0)) == pytest.approx(0.2)
    assert float(clip_scale([tf.constant([0.0])], 1.0)) == 1.0
    assert np.isnan(float(clip_scale([tf.constant([np.inf])], 1.0)))
