"""The hash behind stochastic rounding and random coordinates, judged by statistics with known distributions."""

import numpy as np
import pytest
from scipy import stats

from tfscale.suite.exchange import noise

pytestmark = pytest.mark.tensorflow
tf = pytest.importorskip("tensorflow")
N = 1 << 20


def draw(*key: int) -> "np.ndarray[tuple[int], np.dtype[np.uint32]]":
    drawn = tf.function(lambda: noise.bits([N], noise.key_of(*key)), jit_compile=True)()
    return np.asarray(drawn)


@pytest.mark.parametrize("shift", [0, 8, 16, 24])
def test_every_byte_is_uniform(shift: int) -> None:
    counts = np.bincount((draw(0, 1, 7) >> shift) & 255, minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_neighbours_steps_and_replicas_are_independent() -> None:
    """Correlations of N pairs have the standard error 1 / sqrt(N)."""
    streams = {key: draw(*key) / 2.0**32 for key in [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)]}
    first = streams[(0, 0, 0)]
    pairs = [(first[:-lag], first[lag:]) for lag in (1, 2, 512)]
    pairs += [(first, stream) for key, stream in streams.items() if key != (0, 0, 0)]
    for one, other in pairs:
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(N)


def test_uniform_has_the_mean_of_one_half() -> None:
    drawn = np.asarray(noise.uniform([N], noise.key_of(3)), np.float64)
    assert drawn.min() > 0
    assert drawn.max() < 1
    assert abs(drawn.mean() - 0.5) < 5 / np.sqrt(12 * N)


def test_compiled_or_not_makes_no_difference() -> None:
    np.testing.assert_array_equal(draw(5, 6), noise.bits([N], noise.key_of(5, 6)))


@pytest.mark.parametrize("seed", [-1, 2**31, 1.5, True, "one"])
def test_a_seed_that_is_none_is_refused(seed: object) -> None:
    with pytest.raises(TypeError, match="seed is"):
        noise.checked_seed(seed)
