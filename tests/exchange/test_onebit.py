"""EF-signSGD: signs and mean magnitudes, nothing lost, and what travels."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tfscale.suite.exchange import onebit
from tfscale.suite.exchange.base import create
from tfscale.suite.exchange.coded import payload_bytes
from tfscale.suite.exchange.compiled import compiled
from tfscale.suite.exchange.packing import in_groups

pytestmark = pytest.mark.tensorflow
tf = pytest.importorskip("tensorflow")
from conserved import assert_nothing_is_lost, gradients, kept_back  # noqa: E402
from lockstep import Lockstep  # noqa: E402

NAME = "tfscale.suite.exchange.onebit:OneBit"
BUCKET, WORDS = 1024, 33


def test_signs_and_the_mean_magnitude_of_each_bucket() -> None:
    values = gradients(1, 1500, 0)[0][0]
    words, new = compiled(onebit.encode)(in_groups(tf.constant(values), [32, 32]), tf.zeros([2, 32, 32]), 1500)
    assert words.shape == [2, 33]
    got = np.asarray(compiled(onebit.decode)(words)).ravel()[:1500]
    for bucket in (slice(0, 1024), slice(1024, 1500)):  # what fills up the second one does not count
        expected = np.sign(values[bucket]) * np.abs(values[bucket].astype(np.float64)).mean()
        np.testing.assert_allclose(got[bucket], expected, rtol=1e-5)
    left = np.asarray(new).ravel()
    np.testing.assert_allclose(left[:1500], values - got, rtol=1e-6, atol=1e-7)
    assert not left[1500:].any()


@pytest.mark.parametrize(("replicas", "elements"), [(2, 5003), (3, 5003), (4, 9001)])
def test_nothing_is_lost(replicas: int, elements: int) -> None:
    assert_nothing_is_lost(NAME, replicas, elements)


@pytest.mark.parametrize(("replicas", "elements"), [(2, 5003), (3, 5003), (4, 9001)])
def test_bytes(replicas: int, elements: int) -> None:
    world = Lockstep(NAME, replicas)
    world.step(gradients(replicas, elements, 0))
    riders = 4 * 4
    assert world.payload_bytes == [payload_bytes(elements, BUCKET, WORDS, replicas) + riders] * replicas


@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_nan_is_seen_at_once_and_gone_in_the_next_step(replicas: int, poison: float) -> None:
    world = Lockstep(NAME, replicas)
    shares = gradients(replicas, 5003, 0)
    shares[1][0][7] = poison
    assert not np.isfinite(np.asarray(world.step(shares)[0][0][0])[7])
    for step in (1, 2):
        assert np.isfinite(np.asarray(world.step(gradients(replicas, 5003, step))[0][0][0])).all()
    assert np.isfinite(kept_back(world, 5003)).all()


def test_a_skipped_step_leaves_nothing() -> None:
    world = Lockstep(NAME, 3)
    world.step(gradients(3, 5003, 0))
    assert kept_back(world, 5003).any()
    world.step(gradients(3, 5003, 1), skipped=1.0)
    assert not kept_back(world, 5003).any()


@pytest.mark.parametrize("argument", ["bucket=0", "bucket=100", "bucket=1e3"])
def test_arguments(argument: str) -> None:
    with pytest.raises(ValueError, match=r"bucket is .* a multiple of 32"):
        create(f"{NAME}({argument})")


def test_gradients_in_several_vectors_keep_a_residual_each() -> None:
    """The last gradient leaves first. Over steps, each gets all that was handed in but what its residual holds."""
    world = Lockstep(NAME, 2)
    sizes = (2048, 1500)
    for exchange in world.exchanges:
        exchange.vector_mib = 0.0  # type: ignore[attr-defined]
    handed, came = [np.zeros(size) for size in sizes], [np.zeros(size) for size in sizes]
    for step in range(3):
        parts = [gradients(2, size, 10 * step + place) for place, size in enumerate(sizes)]
        means, _ = world.step([[part[replica][0] for part in parts] for replica in range(2)])[0]
        for place, part in enumerate(parts):
            handed[place] += part[0][0] + part[1][0]
            came[place] += np.asarray(means[place])
    for place, size in enumerate(sizes):
        kept = [exchange.state(replica)[1 - place] for replica, exchange in enumerate(world.exchanges)]
        left = sum(np.asarray(residual).ravel()[:size] for residual in kept)
        np.testing.assert_allclose(came[place] + left, handed[place], rtol=1e-5, atol=2e-5)
