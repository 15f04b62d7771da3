"""Steps to a target loss against closed forms and brute force, and the words that say what an exchange gains and costs."""

import math

import numpy as np
import pytest
from scipy import stats

from tfscale.suite.analysis.convergence import (
    Paired,
    convergence,
    gain,
    hopeless,
    sentence,
    smoothed,
    steps_to,
    target,
    time_to_target,
)
from tfscale.suite.record import Quantity, unknown


def measured(value: float, interval: tuple[float, float] | None = None) -> Quantity:
    return Quantity(value=value, unit="s", kind="measured", statistic="mean", ci95=interval, scope="across_trials")


@pytest.mark.parametrize("window", [1, 3, 20])
def test_the_smoothed_loss_is_the_mean_of_the_last_steps(window: int) -> None:
    losses = np.random.default_rng(0).normal(5, 1, 40)
    means = smoothed(losses, window)
    assert np.isnan(means[: window - 1]).all()
    for at in range(window - 1, 40):
        assert means[at] == pytest.approx(sum(losses[at - window + 1 : at + 1]) / window)


def test_fewer_steps_than_the_window_have_no_smoothed_loss() -> None:
    assert np.isnan(smoothed([1.0, 2.0], 3)).all()
    with pytest.raises(ValueError, match="at least 1"):
        smoothed([1.0], 0)


def test_steps_of_an_exponential_are_those_of_its_closed_form() -> None:
    """A loss exp(-t / tau), smoothed, is the same exponential times a constant: it comes down as fast as tau says."""
    steps = np.arange(1, 901)
    fast, slow = np.exp(-steps / 100), np.exp(-steps / 200)
    wanted = target(fast, 300, 20)
    assert steps_to(fast, wanted, 20) == 300

    def factor(tau: float) -> float:
        return sum(math.exp(k / tau) for k in range(20)) / 20

    closed = 200 * (300 / 100 + math.log(factor(200) / factor(100)))
    assert steps_to(slow, wanted, 20) == math.ceil(closed)
    assert steps_to(slow[:500], wanted, 20) is None


def test_the_first_step_there_counts_even_if_the_loss_rises_again() -> None:
    losses = [5.0, 4.0, 1.0, 1.0, 4.0, 3.0]
    assert target(losses, 6, 2) == 3.5
    assert steps_to(losses, 3.5, 2) == 3


def test_a_loss_that_is_no_number_never_arrives_and_gives_no_target() -> None:
    losses = [3.0, 2.0, math.nan, math.nan]
    assert steps_to(losses, 1.0, 2) is None
    with pytest.raises(ValueError, match="is nan"):
        target(losses, 4, 2)
    with pytest.raises(ValueError, match="no smoothed loss after 5 of 4"):
        target(losses, 5, 2)
    assert hopeless([math.nan, math.inf])
    assert not hopeless([math.nan, 1.0])
    assert not hopeless([])


def test_the_ratio_over_seeds_is_paired_and_its_interval_is_students() -> None:
    base, other = [300, 290, 300, 280, 300], [330, 300, 310, 300, 320]
    found = convergence([Paired(k, b, o) for k, (b, o) in enumerate(zip(base, other, strict=True))], 900)
    logs = np.log(np.array(other) / np.array(base))
    low, high = stats.t.interval(0.95, 4, logs.mean(), stats.sem(logs))
    assert found.ratio.value == pytest.approx(math.exp(logs.mean()))
    assert found.ratio.ci95 == pytest.approx((math.exp(low), math.exp(high)))
    assert found.steps.value == pytest.approx(stats.gmean(other))
    assert (found.seeds, found.unreached, found.steps.n_trials) == (5, 0, 5)


def test_one_seed_that_does_not_arrive_leaves_no_mean() -> None:
    found = convergence([Paired(0, 300, 310), Paired(1, 300, None), Paired(2, 290, 300)], 900)
    assert found.ratio.value is None and found.steps.value is None
    assert found.ratio.reason == "not reached in 900 steps by 1 of 3 seeds"
    assert time_to_target(found.steps, measured(0.5)).reason == found.failing
    assert sentence(measured(8.1), found) == "8.1x faster steps, target not reached in 900 steps by 1 of 3 seeds"


def test_time_is_steps_times_step_time_and_the_gain_their_quotient() -> None:
    steps = Quantity(value=318, unit="steps", kind="measured", statistic="s", ci95=(300, 318**2 / 300))
    time = time_to_target(steps, measured(0.5, (0.4, 0.5**2 / 0.4)))
    assert (time.value, time.unit, time.kind) == (159, "s", "derived")
    half = math.hypot(math.log(318 / 300), math.log(0.5 / 0.4))
    assert time.ci95 == pytest.approx((159 / math.exp(half), 159 * math.exp(half)))
    assert gain(measured(1.06), measured(8.1)).value == pytest.approx(8.1 / 1.06)
    assert gain(measured(1.06), measured(8.1)).ci95 is None
    assert gain(unknown("1", "derived", "r", "no"), measured(8.1)).reason == "no"


@pytest.mark.parametrize(
    ("faster", "base", "steps", "words"),
    [
        (8.1, 300, 318, "8.1x faster steps, 6 % more steps, 7.6x to target"),
        (1.8, 300, 294, "1.80x faster steps, 2 % fewer steps, 1.84x to target"),
        (0.5, 300, 300, "2.0x slower steps, as many steps, 0.50x to target"),
        (0.967, 300, 300, "1.03x slower steps, as many steps, 0.97x to target"),
    ],
)
def test_what_is_gained_and_what_it_costs_in_words(faster: float, base: int, steps: int, words: str) -> None:
    assert sentence(measured(faster), convergence([Paired(0, base, steps)], 900)) == words
