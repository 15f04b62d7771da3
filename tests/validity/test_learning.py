import json
import math

import numpy as np
import pytest

from tfscale.suite.validity.learning import loss_verdict

STEPS = np.arange(1, 101)


def test_a_falling_loss_is_falling() -> None:
    """Fifths by hand: steps 1-20 and 81-100 of 2 - s / 100."""
    loss, check = loss_verdict(2 - STEPS / 100, STEPS)
    assert (loss["verdict"], check.status) == ("falling", "VALID")
    assert loss["first_fifth"]["mean"] == pytest.approx(2 - 0.105)
    assert loss["last_fifth"]["mean"] == pytest.approx(2 - 0.905)
    assert loss["first_fifth"]["standard_error"] == pytest.approx(0.01 * math.sqrt(35 / 20))


@pytest.mark.parametrize("losses", [np.ones(100), 1 + STEPS / 100, np.random.default_rng(0).normal(1, 0.1, 100)])
def test_a_loss_that_does_not_fall_is_suspect(losses: np.ndarray) -> None:
    loss, check = loss_verdict(losses, STEPS)
    assert (loss["verdict"], check.status) == ("no_learning", "SUSPECT")


def test_two_standard_errors_are_needed() -> None:
    """Fifths of four losses, standard deviation 0.1154, standard error 0.0577 each, 0.0816 of the difference."""
    first, last = np.array([1.9, 1.9, 2.1, 2.1]), np.array([0.9, 0.9, 1.1, 1.1])
    steps = np.arange(5, 101, 5)
    for drop, verdict in ((0.17, "falling"), (0.16, "no_learning")):
        losses = np.concatenate([first, np.full(12, 1.9), last + 1 - drop])
        assert loss_verdict(losses, steps)[0]["verdict"] == verdict


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("count", [3, 100])
def test_a_loss_that_is_not_finite_is_invalid_and_still_json(bad: float, count: int) -> None:
    losses = np.linspace(2, 1, count)
    losses[-1] = bad
    loss, check = loss_verdict(losses, STEPS[:count])
    assert (loss["verdict"], check.status, check.name) == ("nan_loss", "INVALID", "learning")
    assert loss["last_fifth"]["mean"] is None
    json.dumps(loss, allow_nan=False)


def test_few_steps_tell_nothing() -> None:
    loss, check = loss_verdict(np.ones(49), STEPS[:49])
    assert (loss["verdict"], check.status) == ("unknown", "VALID")


def test_many_steps_in_few_blocks_tell_nothing() -> None:
    loss, check = loss_verdict([3.0, 2.0, 1.0], [100, 200, 300])
    assert (loss["verdict"], check.status) == ("unknown", "VALID")
    assert "2 are needed" in check.detail


def test_fifths_are_of_steps_not_of_losses() -> None:
    """Pilot groups of one step come first: 40 losses at steps 1-40, then 8 at steps 145-1000."""
    steps = np.append(np.arange(1, 41), np.linspace(145, 1000, 8))
    losses = np.where(steps <= 40, 2.0, 1.0) + 0.01 * np.sin(np.arange(48))
    loss, _ = loss_verdict(losses, steps)
    assert loss["verdict"] == "falling"
    assert 1.9 < loss["first_fifth"]["mean"] < 2


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="equally long"):
        loss_verdict([], [])
    with pytest.raises(ValueError, match="equally long"):
        loss_verdict([1.0], [1, 2])
