"""Deep gradient compression: the paper's algorithm, written anew in NumPy."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tfscale.suite.exchange.base import create
from tfscale.suite.exchange.dgc import stages

pytestmark = pytest.mark.tensorflow
tf = pytest.importorskip("tensorflow")
from lockstep import Lockstep  # noqa: E402

ELEMENTS = 2000


def shares(replicas: int, seed: int) -> list[list[Any]]:
    """One large gradient and a small one, [replica][0 or 1]."""
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.normal(size=ELEMENTS))
    large = [(rng.normal(size=ELEMENTS) * sizes / replicas).astype(np.float32) for _ in range(replicas)]
    return [[vector, rng.normal(size=3).astype(np.float32)] for vector in large]


def kept(world: Lockstep, name: str) -> Any:
    return sum(
        np.asarray(exchange._kept[name][replica], np.float64) for replica, exchange in enumerate(world.exchanges)
    )


def means(world: Lockstep, handed: list[list[Any]], skipped: float = 0.0) -> list[Any]:
    """Both means, as all replicas have them."""
    results = [[np.asarray(each) for each in found] for found, _ in world.step(handed, skipped=skipped)]
    for other in results[1:]:
        for one, same in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(same, one)
    return results[0]


@pytest.mark.parametrize("clip", [0, 20])
def test_six_steps_are_those_of_numpy(clip: float) -> None:
    """Algorithm 4 of the paper: local clipping, momentum correction, momentum factor masking. 20 of 2000 are sent."""
    world = Lockstep(f"dgc(ratio=0.01, momentum=0.9, clip={clip})", 2)
    u, v = np.zeros((2, ELEMENTS)), np.zeros((2, ELEMENTS))
    for step in range(6):
        handed = shares(2, step)
        wanted = np.zeros(ELEMENTS)
        for replica in range(2):
            g = handed[replica][0].astype(np.float64)
            if clip:
                g *= min(1.0, clip * 2**-0.5 / np.linalg.norm(g))
            u[replica] = 0.9 * u[replica] + g
            v[replica] += u[replica]
            sent = np.argsort(-np.abs(v[replica]))[:20]
            wanted[sent] += v[replica][sent]
            u[replica][sent] = v[replica][sent] = 0.0
        np.testing.assert_allclose(means(world, handed)[0], wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(kept(world, "velocity"), u.sum(0), rtol=0, atol=1e-4)
    np.testing.assert_allclose(kept(world, "waiting"), v.sum(0), rtol=0, atol=1e-4)
    assert world.payload_bytes == [8 * 20 + 4 * 3 + 16] * 2


def test_clipping_bites() -> None:
    norms = [np.linalg.norm(own[0]) for own in shares(2, 0)]
    assert min(norms) > 20 * 2**-0.5


def test_without_momentum_it_is_topk() -> None:
    """And conserves the gradients as topk does."""
    dgc, topk = Lockstep("dgc(ratio=0.05, momentum=0)", 3), Lockstep("topk(ratio=0.05)", 3)
    for step in range(4):
        handed = shares(3, step)
        for one, other in zip(means(dgc, handed), means(topk, handed), strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(kept(dgc, "waiting"), kept(topk, "residual/0"))


def test_small_gradients_have_the_momentum_of_sgd() -> None:
    world = Lockstep("dgc(momentum=0.5)", 2)
    velocity = np.zeros(3)
    for step in range(4):
        handed = shares(2, step)
        velocity = 0.5 * velocity + handed[0][1] + handed[1][1]
        np.testing.assert_allclose(means(world, handed)[1], velocity, rtol=1e-5)


def test_stages() -> None:
    assert stages(0.001, 100) == ([25, 50, 75, 100], [0.25, 0.0625, 0.015625, 0.00390625, 0.001])
    assert stages(0.02, 9) == ([4, 9], [0.25, 0.0625, 0.02])
    assert stages(0.4, 5) == ([], [0.4]), "nothing is denser: no warm-up"
    ends, ratios = stages(0.001, 3)
    assert ends[-1] == 3
    assert len(ratios) == len(ends) + 1


def test_a_warm_up_sends_more_at_first() -> None:
    """Two steps a stage; one replica's elements, so that those sent can be counted."""
    world = Lockstep("dgc(ratio=0.005, momentum=0, warm_up=6)", 2)
    sent = []
    for step in range(8):
        handed = shares(2, step)
        handed[1][0] = np.zeros(ELEMENTS, np.float32)
        sent.append(int(np.count_nonzero(means(world, handed)[0])))
    assert sent == [500, 500, 125, 125, 31, 31, 10, 10]


def test_a_nan_is_gone_in_later_steps() -> None:
    world = Lockstep("dgc(ratio=0.01)", 2)
    broken = shares(2, 0)
    broken[1][0][7] = np.nan
    assert np.isnan(means(world, broken)[0][7])
    for step in (1, 2):
        assert np.isfinite(means(world, shares(2, step))[0]).all()


def test_a_skipped_step_leaves_nothing() -> None:
    world = Lockstep("dgc(ratio=0.01, warm_up=10)", 2)
    names = ["waiting", "velocity", "momentum/1"]
    means(world, shares(2, 0))
    assert all(kept(world, name).any() for name in names)
    means(world, shares(2, 1), skipped=1.0)
    assert not any(kept(world, name).any() for name in names)
    assert kept(world, "step") == 4.0, "two steps on each of two replicas: the warm-up goes on"
    assert len(world.exchanges[0].state(0)) == 4


@pytest.mark.parametrize(
    "argument",
    ["ratio=0", "ratio=0.5", "momentum=1", "momentum=-0.1", "clip=-1", "clip=inf", "warm_up=-1", "warm_up=1.5"],
)
def test_arguments(argument: str) -> None:
    with pytest.raises(ValueError, match=argument.partition("=")[0] + " is"):
        create(f"dgc({argument})")
