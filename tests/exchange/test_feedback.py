"""Error feedback on an exchange that sends whole numbers only."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tfscale.suite.exchange.dense import FlatExchange
from tfscale.suite.exchange.feedback import Feedback
from tfscale.suite.exchange.wire import Wire

pytestmark = pytest.mark.tensorflow
tf = pytest.importorskip("tensorflow")
from lockstep import Lockstep  # noqa: E402


class Whole(FlatExchange):
    """Rounds to whole numbers; the vector goes in two halves, as a caller that works in chunks would give it."""

    name = "whole"
    smallest = 0

    def __init__(self) -> None:
        super().__init__()
        self._feedback = Feedback(self)

    def combine_flat(self, wire: Wire, flat: Any) -> Any:
        return tf.concat([self._half(wire, half) for half in tf.split(flat, 2)], 0)

    def _half(self, wire: Wire, flat: Any) -> Any:
        key = self._feedback.key(wire)
        corrected = self._feedback.correct(wire, key, flat)
        sent = tf.round(corrected)
        self._feedback.keep(wire, key, corrected, sent)
        return wire.sum([sent])[0]

    def settle(self, replica: int, skipped: Any) -> None:
        self._feedback.settle(replica, skipped)


def sums(world: Lockstep, *shares: list[float], skipped: float = 0.0) -> list[float]:
    found = world.step([[np.array(share, np.float32)] for share in shares], skipped=skipped)
    values: list[float] = np.asarray(found[0][0][0]).tolist()
    return values


def kept(world: Lockstep) -> list[float]:
    """What is saved in checkpoints: two residuals of one element each a replica."""
    return [
        variable.numpy().item()
        for replica, exchange in enumerate(world.exchanges)
        for variable in exchange.state(replica)
    ]


def test_what_was_not_sent_comes_later() -> None:
    world = Lockstep(Whole, 2)
    assert sums(world, [0.375, 1.0], [0.25, -2.25]) == [0.0, -1.0]
    assert sums(world, [0.375, 1.0], [0.25, -2.25]) == [1.0, -1.0]  # .75 and .5 (to even); 1 and -2.5 (to even)
    assert kept(world) == [-0.25, 0.0, 0.5, -0.5]


def test_a_skipped_step_leaves_nothing() -> None:
    world = Lockstep(Whole, 2)
    sums(world, [0.375, 0.375], [0.25, 0.25])
    sums(world, [0.0, 0.0], [np.inf, 0.125], skipped=1.0)
    assert kept(world) == [0.0] * 4


def test_what_is_not_finite_is_not_kept() -> None:
    world = Lockstep(Whole, 2)
    broken = sums(world, [np.nan, 0.375], [np.inf, 0.25])
    assert np.isnan(broken[0])
    assert broken[1] == 0.0
    assert sums(world, [1.0, 0.375], [2.0, 0.25]) == [3.0, 1.0]
