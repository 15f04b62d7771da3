"""Deferring: small gradients come in every k-th step, as the sum over the steps since; large ones in each."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tfscale.suite.exchange.base import create

pytestmark = pytest.mark.tensorflow
tf = pytest.importorskip("tensorflow")
from lockstep import Lockstep  # noqa: E402


def gradients(replicas: int, step: int) -> list[list[Any]]:
    """Whole numbers, so that sums are exact: 5 and 2 x 3 elements, a sparse one, and 20."""
    rng = np.random.default_rng(step)

    def one() -> list[Any]:
        dense = [rng.integers(-9, 10, shape).astype(np.float32) for shape in ((5,), (2, 3), (20,))]
        sparse = tf.IndexedSlices(tf.fill([1, 2], float(step)), tf.constant([step % 3]), tf.constant([3, 2]))
        return [dense[0], sparse, dense[1], dense[2]]

    return [one() for _ in range(replicas)]


def total(steps: Any, place: int, replicas: int = 3) -> Any:
    """Sum over those steps and all replicas."""
    return sum(own[place] for step in steps for own in gradients(replicas, step))


def test_the_sum_comes_in_every_third_step() -> None:
    world = Lockstep("deferred(small=20, every=3)", 3)
    for step in range(9):
        for means, riders in world.step(gradients(3, step), riders=np.ones(4, np.float32)):
            steps = range(step - 2, step + 1) if step % 3 == 2 else ()
            for place, shape in ((0, (5,)), (2, (2, 3))):
                np.testing.assert_array_equal(means[place], np.zeros(shape) + total(steps, place))
            np.testing.assert_array_equal(means[3], total([step], 3))
            assert tf.convert_to_tensor(means[1])[step % 3, 0] == 3.0 * step
            assert np.asarray(riders).tolist() == [3.0] * 4
    saved = [tuple(variable.shape) for variable in world.exchanges[0].state(0)]
    assert sorted(saved) == [(), (11,)], "what was added up, and the count of steps"


def test_a_skipped_step_forgets_what_was_added_up_and_counts() -> None:
    world = Lockstep("deferred(small=20, every=3)", 3)
    broken = gradients(3, 1)
    broken[1][0][2] = np.inf
    world.step(gradients(3, 0))
    world.step(broken, skipped=1.0)
    means, _ = world.step(gradients(3, 2))[0]
    np.testing.assert_array_equal(means[0], total([2], 0))


def test_a_nan_comes_once() -> None:
    world = Lockstep("deferred(small=20, every=2)", 3)
    broken = gradients(3, 0)
    broken[2][0][0] = np.nan
    world.step(broken)
    assert np.isnan(np.asarray(world.step(gradients(3, 1))[0][0][0])).any()
    world.step(gradients(3, 2))
    np.testing.assert_array_equal(world.step(gradients(3, 3))[0][0][0], total([2, 3], 0))


@pytest.mark.parametrize("argument", ["every=1", "every=2.5", "small=0", "small=true"])
def test_arguments(argument: str) -> None:
    with pytest.raises(ValueError, match=argument.partition("=")[0] + " is"):
        create(f"deferred({argument})")
