"""Random-k: the same coordinates everywhere, each as likely as any other, nothing lost."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).parent))

from tfscale.suite.exchange import noise, randomk
from tfscale.suite.exchange.base import create

pytestmark = pytest.mark.tensorflow
tf = pytest.importorskip("tensorflow")
from conserved import assert_nothing_is_lost, gradients, kept_back  # noqa: E402
from lockstep import Lockstep  # noqa: E402

NAME = "tfscale.suite.exchange.randomk:RandomK"


def test_every_coordinate_is_as_likely_and_runs_are_independent() -> None:
    """Places of 7000 draws, of 5 runs of 7: uniform in each run, and in each pair of neighbouring runs."""
    run, runs, draws = 7, 5, 7000
    numbers = tf.range(draws)
    places = tf.function(
        lambda: tf.map_fn(lambda number: randomk.places_of(noise.key_of(0, number), runs, run), numbers),
        jit_compile=True,
    )
    drawn = np.asarray(places()) - np.arange(runs) * run
    assert drawn.min() == 0
    assert drawn.max() == run - 1
    for column in range(runs):
        assert stats.chisquare(np.bincount(drawn[:, column], minlength=run)).pvalue > 1e-3
    for column in range(runs - 1):
        both = drawn[:, column] * run + drawn[:, column + 1]
        assert stats.chisquare(np.bincount(both, minlength=run * run)).pvalue > 1e-3


def test_what_moves_is_the_mean_and_the_rest_is_kept() -> None:
    """1250 elements in runs of 4, the last one of 2: 313 or 312 of them move."""
    world = Lockstep(f"{NAME}(ratio=0.25)", 3)
    shares = gradients(3, 1250, 0)
    results = [np.asarray(means[0]) for means, _ in world.step(shares)]
    exact = sum(share[0].astype(np.float64) for share in shares)
    for result in results:
        moved = np.flatnonzero(result)
        assert moved.size in (312, 313)
        assert np.bincount(moved // 4).max() == 1
        np.testing.assert_allclose(result[moved], exact[moved], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(result, results[0])
    np.testing.assert_allclose(kept_back(world, 1250), np.where(results[0] == 0.0, exact, 0.0), rtol=1e-5, atol=1e-6)
    again = np.asarray(world.step(shares)[0][0][0])
    assert (np.flatnonzero(again)[:100] != np.flatnonzero(results[0])[:100]).any(), "other ones in the next step"


@pytest.mark.parametrize(
    ("replicas", "elements", "ratio"), [(2, 1024, 0.01), (3, 5003, 0.3), (4, 2048, 0.1), (2, 1100, 1)]
)
def test_nothing_is_lost(replicas: int, elements: int, ratio: float) -> None:
    if ratio < 1:
        assert_nothing_is_lost(f"{NAME}(ratio={ratio})", replicas, elements)
        return
    world = Lockstep(f"{NAME}(ratio={ratio})", replicas)
    shares = gradients(replicas, elements, 0)
    means = np.asarray(world.step(shares)[0][0][0])
    np.testing.assert_allclose(means, shares[0][0] + shares[1][0], rtol=1e-6)


def test_bytes() -> None:
    world = Lockstep(NAME, 2)
    world.step(gradients(2, 5003, 0))
    assert world.payload_bytes == [51 * 4 + 4 * 4] * 2
    assert randomk.payload_bytes(5003, 100) == 51 * 4


def test_a_nan_is_gone_in_later_steps() -> None:
    world = Lockstep(f"{NAME}(ratio=0.5)", 2)
    shares = gradients(2, 2000, 0)
    shares[1][0][::2] = np.nan
    assert np.isnan(np.asarray(world.step(shares)[0][0][0])).any()
    for step in (1, 2, 3):
        assert np.isfinite(np.asarray(world.step(gradients(2, 2000, step))[0][0][0])).all()
    assert np.isfinite(kept_back(world, 2000)).all()


def test_a_skipped_step_leaves_nothing() -> None:
    world = Lockstep(NAME, 2)
    world.step(gradients(2, 3000, 0))
    assert kept_back(world, 3000).any()
    world.step(gradients(2, 3000, 1), skipped=1.0)
    assert not kept_back(world, 3000).any()


@pytest.mark.parametrize("argument", ["ratio=0", "ratio=1.5", "ratio=true", "ratio=many", "ratio=nan", "seed=0.5"])
def test_arguments(argument: str) -> None:
    with pytest.raises(ValueError, match=argument.partition("=")[0] + " is"):
        create(f"{NAME}({argument})")
