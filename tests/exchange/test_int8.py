"""QSGD: what a code means, that it is right on average, and what travels."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tfscale.suite.exchange import int8
from tfscale.suite.exchange.base import create
from tfscale.suite.exchange.coded import payload_bytes
from tfscale.suite.exchange.compiled import compiled
from tfscale.suite.exchange.packing import in_groups

pytestmark = pytest.mark.tensorflow
tf = pytest.importorskip("tensorflow")
from conserved import gradients  # noqa: E402
from lockstep import Lockstep  # noqa: E402

NAME = "tfscale.suite.exchange.int8:Int8"
BUCKET = 512


def coded(values: Any, number: float = 0.0, replica: int = 0) -> Any:
    grouped = in_groups(tf.constant(values), [4, 128])
    return compiled(int8.encode)(grouped, tf.constant(number), 0, replica)


def decoded(words: Any, elements: int) -> Any:
    return np.asarray(compiled(int8.decode)(words)).ravel()[:elements]


def scales(values: Any) -> Any:
    """The step between codes at each element: the largest magnitude of its bucket over 127."""
    padded = np.zeros(-(-len(values) // BUCKET) * BUCKET)
    padded[: len(values)] = np.abs(values)
    return np.repeat(padded.reshape(-1, BUCKET).max(1) / 127, BUCKET)[: len(values)]


def test_a_code_is_a_neighbouring_level() -> None:
    values = gradients(1, 1300, 0)[0][0]
    words = coded(values)
    assert words.dtype == tf.int32
    assert words.shape == [3, 129]
    got, step = decoded(words, 1300), scales(values)
    assert (np.abs(got - values) < step * (1 + 1e-5)).all()
    np.testing.assert_allclose(got / step, np.round(got / step), atol=1e-3)
    largest = np.abs(values[:BUCKET]).argmax()
    np.testing.assert_allclose(got[largest], values[largest], rtol=1e-6)


def test_unbiased() -> None:
    """Over many draws the mean is the value: deviations have the variance f (1 - f) / n levels, f being what is over."""
    values = gradients(1, 1024, 1)[0][0]
    draws = 400
    mean = np.mean([decoded(coded(values, float(number)), 1024) for number in range(draws)], axis=0)
    over = values / scales(values) % 1.0
    random = over * (1 - over) > 0.01
    z = ((mean - values) / scales(values))[random] / np.sqrt(over * (1 - over) / draws)[random]
    assert random.sum() > 900
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert 0.8 < z.var() < 1.2
    assert np.abs(z).max() < 5


def test_replicas_and_steps_round_differently_and_a_run_repeats() -> None:
    values = gradients(1, 1024, 2)[0][0]
    base = np.asarray(coded(values))
    assert (base == np.asarray(coded(values))).all()
    assert (base != np.asarray(coded(values, replica=1))).any()
    assert (base != np.asarray(coded(values, number=1.0))).any()
    shares = [gradients(2, 2000, 3)] * 2
    worlds = [Lockstep(NAME, 2), Lockstep(NAME, 2)]
    runs = [[np.asarray(world.step(share)[0][0][0]) for share in shares] for world in worlds]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0][0] != runs[0][1]).any(), "the same gradients are rounded anew in each step"


@pytest.mark.parametrize("value", [0.0, 1e-38, 3e38, -2.5, 127.0])
def test_equal_elements_keep_their_value(value: float) -> None:
    got = decoded(coded(np.full(600, value, np.float32)), 600)
    np.testing.assert_allclose(got, 0.0 if abs(value) < 1e-30 else value, rtol=1e-6)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_in_its_bucket_and_is_seen(poison: float) -> None:
    values = gradients(1, 1024, 4)[0][0]
    values[3] = poison
    got = decoded(coded(values), 1024)
    assert not np.isfinite(got[3])
    assert np.isfinite(got[BUCKET:]).all()


@pytest.mark.parametrize(("replicas", "elements"), [(2, 1024), (2, 5003), (3, 5003), (4, 5003)])
def test_the_mean_is_within_its_levels_and_the_same_everywhere(replicas: int, elements: int) -> None:
    world = Lockstep(NAME, replicas)
    shares = gradients(replicas, elements, 5)
    results = [np.asarray(means[0]) for means, _ in world.step(shares)]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    exact = sum(share[0].astype(np.float64) for share in shares)
    bound = sum(scales(share[0]) for share in shares)
    if replicas > 2:
        bound = bound + scales(np.abs(exact) + bound)  # the sums are rounded once more
    assert (np.abs(results[0] - exact) < bound * (1 + 1e-4)).all()
    riders = 4 * 4
    assert world.payload_bytes == [payload_bytes(elements, BUCKET, 129, replicas) + riders] * replicas


def test_small_and_sparse_gradients_are_left_alone() -> None:
    world = Lockstep(NAME, 2)
    small = np.array([0.1, 0.2], np.float32)
    rows = tf.IndexedSlices(tf.constant([[0.3, 0.7]] * 1500), tf.range(1500), tf.constant([1500, 2], tf.int64))
    means, riders = world.step([[small, rows], [small, rows]], riders=np.arange(4, dtype=np.float32))[1]
    np.testing.assert_array_equal(means[0], small + small)
    np.testing.assert_array_equal(means[1].values, np.tile(np.float32([0.3, 0.7]), (3000, 1)))
    assert np.asarray(riders).tolist() == [0.0, 2.0, 4.0, 6.0]


@pytest.mark.parametrize("argument", ["bucket=0", "bucket=510", "bucket=512.0", "bucket=true", "seed=-1"])
def test_arguments(argument: str) -> None:
    with pytest.raises(ValueError, match=argument.partition("=")[0] + " is"):
        create(f"{NAME}({argument})")
