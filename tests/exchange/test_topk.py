"""Top-k: the largest elements move by the sum of what was sent, the rest is kept."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tfscale.suite.exchange.base import create
from tfscale.suite.exchange.quality import cosine, recall

pytestmark = pytest.mark.tensorflow
tf = pytest.importorskip("tensorflow")
from lockstep import Lockstep  # noqa: E402

ELEMENTS = 3000


def shares(replicas: int, seed: int) -> list[list[Any]]:
    """Two large gradients a replica, [replica][0 or 1]."""
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.normal(size=ELEMENTS))
    vectors = [(rng.normal(size=ELEMENTS) * sizes / replicas).astype(np.float32) for _ in range(replicas)]
    return [[vector[:1200].reshape(30, 40), vector[1200:]] for vector in vectors]


def flat(gradients: Any) -> Any:
    return np.concatenate([np.asarray(each).ravel() for each in gradients])


def kept(world: Lockstep) -> Any:
    return sum(
        np.asarray(exchange._kept["residual/0"][replica], np.float64)
        for replica, exchange in enumerate(world.exchanges)
    )


def means(world: Lockstep, handed: list[list[Any]], skipped: float = 0.0) -> Any:
    results = [flat(found) for found, _ in world.step(handed, skipped=skipped)]
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
    return results[0]


@pytest.mark.parametrize("replicas", [2, 3])
def test_one_step(replicas: int) -> None:
    """Each replica's 300 largest, over both gradients together, and no others."""
    world = Lockstep("topk(ratio=0.1)", replicas)
    handed = shares(replicas, 0)
    wanted = np.zeros(ELEMENTS)
    for own in map(flat, handed):
        places = np.argsort(-np.abs(own), kind="stable")[:300]
        wanted[places] += own[places]
    found = means(world, handed)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    dense = sum(flat(own).astype(np.float64) for own in handed)
    np.testing.assert_allclose(kept(world), dense - wanted, rtol=0, atol=1e-5)
    assert world.payload_bytes == [8 * 300 + 16] * replicas
    assert cosine(found, dense) > 0.7, "a tenth of the elements of such a gradient says most of it"
    assert 0.3 < recall(found, dense) < 1.0, "each knows its own part only"


@pytest.mark.parametrize("replicas", [2, 4])
def test_nothing_is_lost(replicas: int) -> None:
    world = Lockstep("topk(ratio=0.02)", replicas)
    handed, came = np.zeros(ELEMENTS), np.zeros(ELEMENTS)
    for step in range(8):
        own = shares(replicas, step)
        handed += sum(flat(each).astype(np.float64) for each in own)
        came += means(world, own)
    assert np.abs(kept(world)).max() > 0.1
    np.testing.assert_allclose(came + kept(world), handed, rtol=0, atol=2e-5)
    assert [tuple(variable.shape) for variable in world.exchanges[0].state(0)] == [(ELEMENTS,)]


def test_a_nan_is_gone_in_later_steps() -> None:
    world = Lockstep("topk(ratio=0.02)", 2)
    broken = shares(2, 0)
    broken[1][1][7] = np.nan
    assert np.isnan(means(world, broken)[1207])
    for step in (1, 2):
        assert np.isfinite(means(world, shares(2, step))).all()
    assert np.isfinite(kept(world)).all()


def test_a_skipped_step_leaves_nothing() -> None:
    world = Lockstep("topk", 2)
    means(world, shares(2, 0))
    assert kept(world).any()
    means(world, shares(2, 1), skipped=1.0)
    assert not kept(world).any()


@pytest.mark.parametrize("ratio", ["0", "0.5", "1", "-0.1", "true", "nan", "few"])
def test_a_ratio_that_is_none_is_refused(ratio: str) -> None:
    with pytest.raises(ValueError, match=r"ratio is .* above 0 and below 0.5"):
        create(f"topk(ratio={ratio})")
