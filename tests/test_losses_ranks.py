"""The pass that keeps losses in real ranks: the same steps on all, the same losses for the same seed, staleness counted."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "toy"))
import toy_ranks
from toy_ranks import toy

from tfscale.suite.analysis.convergence import steps_to
from tfscale.suite.plan import Lengths

pytestmark = [pytest.mark.tensorflow, pytest.mark.system]


def test_two_ranks_stop_at_the_same_step_once_the_target_is_seen(tmp_path: Path) -> None:
    """The first training gives the target, the second stops at it; both begin with the same weights and data."""
    axes = {"preset": "pool", "strategy": "multi_worker_mirrored", "devices": 2}
    exact = toy_ranks.run(toy(**axes), tmp_path / "none", lengths=Lengths(most=60, smoothing=5)).assert_clean()
    losses = exact.losses()["loss"]
    assert losses.size == 60
    target = losses[25:30].mean()
    lengths = Lengths(most=120, smoothing=5, until=float(target))
    half = toy_ranks.run(toy(**axes, exchange="fp16"), tmp_path / "fp16", lengths=lengths).assert_clean()
    kept = [half.losses(rank)["loss"] for rank in (0, 1)]
    np.testing.assert_array_equal(kept[0], kept[1])
    reached = steps_to(kept[0], float(target), 5)
    assert reached is not None and reached <= kept[0].size <= reached + 4
    np.testing.assert_allclose(kept[0][:5], losses[:5], rtol=2e-3)
    assert not (tmp_path / "none" / "rank0" / "result.json").exists()


def test_the_seed_changes_weights_and_data_and_nothing_else_does(tmp_path: Path) -> None:
    lengths = Lengths(most=4, smoothing=2)
    runs = [
        toy_ranks.run(toy(preset="pool", seed=seed), tmp_path / str(number), lengths=lengths).assert_clean()
        for number, seed in enumerate((0, 1, 1))
    ]
    first, other, same = (ran.losses()["loss"] for ran in runs)
    np.testing.assert_array_equal(other, same)
    assert not np.isclose(first, other).any()


def test_staleness_of_two_workers_that_step_at_once(tmp_path: Path) -> None:
    """With one worker nobody else updates; with two, about one other update falls into each step, and never many."""
    axes = {"strategy": "parameter_server", "preset": "pool"}
    lengths = Lengths(most=80, smoothing=5)
    alone = toy_ranks.run(toy(**axes), tmp_path / "one", lengths=lengths).assert_clean().losses()
    np.testing.assert_array_equal(alone["staleness"][2:], 0.0)
    both = toy_ranks.run(toy(**axes, devices=2), tmp_path / "two", lengths=lengths).assert_clean().losses()
    assert both["loss"].size == both["staleness"].size == 80
    assert (both["staleness"] >= 0).all() and both["staleness"].max() < 20
    assert 0.1 < both["staleness"].mean() < 4
