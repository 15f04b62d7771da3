"""Local SGD: weights part in between and meet in every k-th step, at the mean of where all of them got."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tfscale.suite.exchange.base import create

pytestmark = pytest.mark.tensorflow
tf = pytest.importorskip("tensorflow")
from lockstep import Lockstep, LockstepWire  # noqa: E402

RATE = 0.25


def test_three_replicas_over_eight_steps() -> None:
    """f_i(w) = |w - c_i|^2 / 2 on replica i: its gradient is w - c_i, handed in as a third of it."""
    centres = np.array([[1.0, 2.0], [-4.0, 0.5], [6.0, -1.0]], np.float32)
    world = Lockstep("local_sgd(every=4)", 3)
    variables = [tf.Variable(tf.zeros([2])) for _ in range(3)]
    rows = [tf.Variable(tf.zeros([3, 2])) for _ in range(3)]
    riders = []

    def step(replica: int, number: int) -> int:
        wire = LockstepWire(world, range(3), replica)
        own = [variables[replica], rows[replica]]
        sparse = tf.IndexedSlices(tf.ones([1, 2]) / 3.0, tf.constant([replica]), tf.constant([3, 2]))
        handed = [(own[0] - centres[replica]) / 3.0, sparse]
        (gradient, row), summed = world.exchanges[replica].reduce(wire, handed, tf.ones([4]))
        riders.append(summed)
        own[0].assign_sub(RATE * gradient)
        own[1].scatter_sub(row)
        world.exchanges[replica].after_update(wire, own, tf.constant(number + 1, tf.int64))
        world.exchanges[replica].settle(replica, tf.zeros([]))
        return wire.payload_bytes

    local, local_rows, handed = np.zeros((3, 2)), np.zeros((3, 3, 2)), []
    with ThreadPoolExecutor(3) as pool:
        for number in range(8):
            handed.append(list(pool.map(step, range(3), [number] * 3)))
            local -= RATE * (local - centres)
            local_rows[range(3), range(3)] -= 1.0
            if number % 4 == 3:
                local[:] = local.mean(0)
                local_rows[:] = local_rows.mean(0)
            np.testing.assert_allclose([np.asarray(v) for v in variables], local, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose([np.asarray(v) for v in rows], local_rows, rtol=1e-5, atol=1e-6)
    assert all(np.asarray(each).tolist() == [3.0] * 4 for each in riders)
    # A graph has both sides of the condition, so it counts 16 + 32 / 4 in each step; here only what ran is counted.
    assert handed == [[16] * 3, [16] * 3, [16] * 3, [16 + 8] * 3] * 2
    assert world.exchanges[0].state(0) == [], "weights are the model's"


@pytest.mark.parametrize("every", ["1", "0", "8.0", "true"])
def test_arguments(every: str) -> None:
    with pytest.raises(ValueError, match=r"every is .*2 or more"):
        create(f"local_sgd(every={every})")
