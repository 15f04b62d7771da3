"""Finding the largest elements: against a full sort, and what happens where there are not enough."""

import numpy as np
import pytest

from tfscale.suite.exchange import selection
from tfscale.suite.exchange.quality import cosine, recall

pytestmark = pytest.mark.tensorflow
tf = pytest.importorskip("tensorflow")

Vector = np.ndarray[tuple[int], np.dtype[np.float32]]
LARGE = 200_003
"""So long that a sample is taken for `COUNT`."""
COUNT = 10_000
STRIDE = 5


def heavy(elements: int, seed: int = 0) -> Vector:
    """Of all magnitudes, the larger ones together in columns, as gradients are."""
    rng = np.random.default_rng(seed)
    columns = np.exp(2.0 * rng.normal(size=256))
    return (rng.normal(size=elements) * columns[np.arange(elements) % 256]).astype(np.float32)


def found(vector: Vector, count: int) -> tuple[Vector, Vector, Vector]:
    """(indices, values, what is left) of the largest."""
    tensor = tf.constant(vector)
    indices, values = selection.largest(tensor, count)
    assert indices.dtype == tf.int32
    assert indices.shape == values.shape == [count]
    left = tf.Variable(tensor)
    selection.forget([left], indices)
    return np.asarray(indices), np.asarray(values), np.asarray(left)


@pytest.mark.parametrize(("elements", "count"), [(5000, 1), (5000, 2047), (LARGE, COUNT), (LARGE, 90_000), (LARGE, 17)])
def test_they_are_those_of_a_full_sort(elements: int, count: int) -> None:
    vector = heavy(elements)
    indices, values, left = found(vector, count)
    wanted = np.argsort(-np.abs(vector), kind="stable")[:count]
    assert sorted(indices) == sorted(wanted)
    np.testing.assert_array_equal(values, vector[indices])
    np.testing.assert_array_equal(left, np.where(np.isin(np.arange(elements), wanted), 0.0, vector))


def test_the_sample_is_taken() -> None:
    assert selection.stride_of(COUNT) == STRIDE
    assert selection.stride_of(4095) == 1


@pytest.mark.parametrize(("elements", "count"), [(2000, 20), (LARGE, COUNT)])
def test_of_equals_the_first(elements: int, count: int) -> None:
    indices, values, _ = found(np.full(elements, -0.5, np.float32), count)
    assert sorted(indices) == list(range(count))
    assert (values == -0.5).all()


@pytest.mark.parametrize("elements", [2000, LARGE])
@pytest.mark.parametrize("others", [0, 1, 7])
def test_fewer_than_asked_for(elements: int, others: int) -> None:
    """All that are not zero are found, and the empty slots add nothing and wipe nothing out."""
    vector = np.zeros(elements, np.float32)
    vector[elements - 1 - 3 * np.arange(others)] = 2.0
    indices, values, left = found(vector, COUNT if elements == LARGE else 100)
    np.testing.assert_array_equal(np.bincount(indices, values, elements), vector)
    assert not left.any()


def test_a_sample_that_misleads_costs_slots_and_nothing_else() -> None:
    """All large elements where the sample looks: the threshold lets 2500 pass instead of 12500."""
    vector = heavy(LARGE)
    vector[::STRIDE] *= 1e6
    indices, values, left = found(vector, COUNT)
    wanted = np.argsort(-np.abs(vector), kind="stable")[:2500]
    assert sorted(set(indices)) == sorted(wanted)
    np.testing.assert_array_equal(np.bincount(indices, values, LARGE) + left, vector)
    assert not left[indices].any()


@pytest.mark.parametrize(("elements", "count"), [(2000, 20), (LARGE, COUNT)])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_sent(elements: int, count: int, bad: float) -> None:
    vector = heavy(elements)
    vector[[10, 1001]] = bad
    indices, values, left = found(vector, count)
    assert {10, 1001} <= set(indices)
    assert (~np.isfinite(values)).sum() == 2
    assert np.isfinite(left).all()


def test_the_sum_of_what_replicas_send() -> None:
    indices = np.array([[0, 3], [3, 4], [3, 3]], np.int32)  # the last one has an empty slot
    values = np.array([[1.0, 2.0], [0.5, -1.0], [4.0, 0.0]], np.float32)
    words = [selection.as_words(tf.constant(i), tf.constant(v)) for i, v in zip(indices, values, strict=True)]
    assert words[0].dtype == tf.int32
    assert np.asarray(selection.sum_of(tf.stack(words), 6)).tolist() == [1.0, 0.0, 0.0, 6.5, -1.0, 0.0]


def test_how_many() -> None:
    assert [selection.how_many(n, 0.01) for n in (1, 49, 1024, 11_000_000)] == [1, 1, 10, 110_000]
    with pytest.raises(ValueError, match="2147483648 elements"):
        selection.how_many(2**31, 0.01)


def test_quality() -> None:
    dense = np.array([5.0, -4.0, 3.0, 2.0, 1.0])
    assert recall(np.array([5.0, 0.0, 3.0, 0.0, 0.0]), dense) == 0.5, "5 is one of the two largest, 3 is not"
    assert recall(np.array([5.0, -4.0, 0.0, 0.0, 0.0]), dense) == 1.0
    assert recall(np.zeros(5), dense) == 1.0
    assert cosine(dense, -2.0 * dense) == pytest.approx(-1.0)
    assert cosine(np.array([1.0, 0.0]), np.array([1.0, 1.0])) == pytest.approx(2**-0.5)
    assert np.isnan(cosine(np.zeros(2), np.ones(2)))
