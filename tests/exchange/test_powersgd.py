"""PowerSGD: the right factors against NumPy, exact where the rank suffices, nothing lost, nothing stuck."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tfscale.suite.exchange.base import create
from tfscale.suite.exchange.powersgd import matrix_shape, started

pytestmark = pytest.mark.tensorflow
tf = pytest.importorskip("tensorflow")
from lockstep import Lockstep  # noqa: E402

M, N = 60, 48


def matrices(replicas: int, seed: int, rank: int | None = None, scale: float = 1.0) -> list[list[Any]]:
    """Shares of one gradient [M, N], [replica][0]; of the rank given, with singular values over three decades."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(replicas):
        k = min(M, N) if rank is None else rank
        left, right = rng.normal(size=(M, k)), rng.normal(size=(k, N))
        found.append([(scale * (left * np.logspace(0, -3, k)) @ right).astype(np.float32)])
    return found


def kept(world: Lockstep, name: str) -> Any:
    """The sum over replicas of a state."""
    return sum(
        np.asarray(exchange._kept[name][replica], np.float64) for replica, exchange in enumerate(world.exchanges)
    )


def means(world: Lockstep, shares: list[list[Any]], skipped: float = 0.0) -> Any:
    """The mean that all replicas came to; they must agree to the last bit."""
    results = [np.asarray(found[0]) for found, _ in world.step(shares, skipped=skipped)]
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
    return results[0]


@pytest.mark.parametrize(
    ("shape", "rank", "wanted"),
    [
        ((256, 256), 4, (256, 256)),
        ((256, 4, 64), 4, (256, 256)),  # 1024 x 64 would need 1088 numbers a column, not 512
        ((3, 3, 64, 128), 4, (576, 128)),
        ((30522, 256), 4, (30522, 256)),
        ((4, 4, 4), 1, (4, 16)),  # as good as 16 x 4, and first
        ((1000,), 1, None),
        ((), 1, None),
        ((2, 512), 2, None),  # 2 x 514 numbers instead of 1024
        ((1024, 1), 1, None),
        ((64, 64), 32, None),  # as many
        ((64, 64), 31, (64, 64)),
    ],
)
def test_which_matrix_a_tensor_is(shape: tuple[int, ...], rank: int, wanted: tuple[int, int] | None) -> None:
    assert matrix_shape(shape, rank) == wanted


def test_a_rank_that_suffices_gives_the_mean() -> None:
    """Three shares of rank 1 have a sum of rank 3."""
    world = Lockstep("powersgd(rank=3)", 3)
    for seed in (0, 1):
        shares = matrices(3, seed, rank=1)
        exact = sum(share[0].astype(np.float64) for share in shares)
        np.testing.assert_allclose(means(world, shares), exact, rtol=0, atol=1e-4 * np.abs(exact).max())


@pytest.mark.parametrize("replicas", [2, 3])
def test_three_steps_are_those_of_numpy(replicas: int) -> None:
    """Written anew, in float64, by projections: B B^T is P P^+ whatever basis B of P is taken."""
    world = Lockstep("powersgd(rank=2)", replicas)
    q = np.asarray(started(tf.zeros([2, N]), 0), np.float64).T
    residuals = [np.zeros((M, N)) for _ in range(replicas)]
    for step in range(3):
        shares = matrices(replicas, step)
        corrected = [share[0] + residual for share, residual in zip(shares, residuals, strict=True)]
        p = sum(each @ q for each in corrected)
        onto = p @ np.linalg.pinv(p)
        wanted = onto @ sum(corrected)
        residuals = [each - onto @ each for each in corrected]
        basis = np.linalg.svd(p, full_matrices=False)[0]
        q = sum(each.T @ basis for each in corrected)  # its span is all that counts
        np.testing.assert_allclose(means(world, shares), wanted, rtol=0, atol=2e-4 * np.abs(wanted).max())
        for replica, residual in enumerate(residuals):
            found = np.asarray(world.exchanges[replica]._kept["residual/0"][replica])
            np.testing.assert_allclose(found, residual, rtol=0, atol=2e-4 * np.abs(residual).max())


@pytest.mark.parametrize("replicas", [2, 4])
def test_nothing_is_lost(replicas: int) -> None:
    """Sum over steps of the means + what all keep = sum over steps and replicas of the shares."""
    world = Lockstep("powersgd(rank=1)", replicas)
    handed, came = np.zeros((M, N)), np.zeros((M, N))
    for step in range(6):
        shares = matrices(replicas, step)
        handed += sum(share[0].astype(np.float64) for share in shares)
        came += means(world, shares)
    assert np.abs(kept(world, "residual/0")).max() > 0.1, "a lossy exchange keeps something"
    np.testing.assert_allclose(came + kept(world, "residual/0"), handed, rtol=0, atol=3e-5)


def test_tiny_gradients_are_scaled_ones() -> None:
    """1e-15 squared twice is nothing in float32."""
    tiny, plain = Lockstep("powersgd(rank=2)", 2), Lockstep("powersgd(rank=2)", 2)
    for step in range(4):
        small = means(tiny, matrices(2, step, scale=2.0**-50))
        np.testing.assert_allclose(small * 2.0**50, means(plain, matrices(2, step)), rtol=0, atol=1e-4)


def test_a_gradient_of_zeros_leaves_nothing_stuck() -> None:
    world = Lockstep("powersgd(rank=2)", 2)
    zeros = [[np.zeros((M, N), np.float32)] for _ in range(2)]
    for _ in range(2):
        np.testing.assert_array_equal(means(world, zeros), np.zeros((M, N)))
    shares = matrices(2, 0, rank=1)
    exact = shares[0][0] + shares[1][0]
    np.testing.assert_allclose(means(world, shares), exact, rtol=0, atol=1e-4 * np.abs(exact).max())
    means(world, matrices(2, 1, rank=1))  # the rank falls to 2, then rises again
    came, handed = np.zeros((M, N)), np.zeros((M, N))
    for step in range(40):
        came += means(world, matrices(2, step, rank=2))
        handed += sum(share[0] for share in matrices(2, step, rank=2))
    assert np.linalg.norm(came - handed) < 0.5 * np.linalg.norm(handed), "error feedback catches up"


def test_a_nan_is_gone_in_later_steps() -> None:
    world = Lockstep("powersgd(rank=2)", 2)
    means(world, matrices(2, 0))
    broken = matrices(2, 1)
    broken[1][0][3, 4] = np.nan
    assert np.isnan(means(world, broken)).any(), "who asks for the mean must see it"
    for step in (2, 3):
        assert np.isfinite(means(world, matrices(2, step))).all()
    for name in ("residual/0", "right/0"):
        assert np.isfinite(kept(world, name)).all()


def test_a_skipped_step_leaves_nothing() -> None:
    world = Lockstep("powersgd(rank=2)", 2)
    means(world, matrices(2, 0))
    assert kept(world, "residual/0").any()
    means(world, matrices(2, 1), skipped=1.0)
    assert not kept(world, "residual/0").any()


def test_bytes_and_what_travels_whole() -> None:
    """4 r (m + n) bytes a matrix; a vector, a small matrix and one that would not shrink as they are; 16 of riders."""
    shapes = [(100, 30), (5000,), (20, 20), (8, 8, 40), (2, 1024)]
    rng = np.random.default_rng(0)
    shares = [[rng.normal(size=shape).astype(np.float32) for shape in shapes] for _ in range(2)]
    world = Lockstep("powersgd(rank=2)", 2)
    found, riders = world.step(shares, riders=np.ones(4, np.float32))[1]
    assert world.payload_bytes == [4 * 2 * (100 + 30) + 4 * 2 * (64 + 40) + 4 * (5000 + 400 + 2048) + 16] * 2
    assert np.asarray(riders).tolist() == [2.0] * 4
    for place, shape in enumerate(shapes):
        exact = shares[0][place] + shares[1][place]
        assert found[place].shape == shape
        assert np.array_equal(found[place], exact) == (place in (1, 2, 4))
    saved = [tuple(variable.shape) for variable in world.exchanges[0].state(0)]
    assert sorted(saved) == sorted([(100, 30), (2, 30), (64, 40), (2, 40)]), "residuals and warm starts"


@pytest.mark.parametrize("rank", ["0", "-1", "2.0", "true", "low"])
def test_a_rank_that_is_none_is_refused(rank: str) -> None:
    with pytest.raises(ValueError, match=r"rank is .*integer of 1 or more"):
        create(f"powersgd(rank={rank})")
