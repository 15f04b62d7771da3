import math

import numpy as np
import pytest

from tfscale.suite.record import Quantity, unknown
from tfscale.suite.timing.statistics import quantity
from tfscale.suite.timing.trials import (
    BOOTSTRAP,
    STUDENT,
    STUDENT_PLAIN,
    abba_ratio,
    across_trials,
    bootstrap_t,
    paired_ratio,
    student_half_width,
    welch_half_width,
    welch_ratio,
)

SIMULATIONS = 2000


def trials(*values: float) -> list[Quantity]:
    return [quantity(value, "s", "mean", n_samples=100) for value in values]


def bounds(result: Quantity) -> tuple[float, float]:
    assert result.ci95 is not None
    return result.ci95


def test_student_interval_by_hand() -> None:
    """Logs -1, 0, 1: s = 1, t(2) = 4.3027, half width 4.3027 / sqrt(3)."""
    result = across_trials(trials(math.e**-1, 1.0, math.e))
    half = 4.302653 / math.sqrt(3)
    assert result.value == pytest.approx(1.0)
    assert bounds(result) == pytest.approx((math.exp(-half), math.exp(half)), rel=1e-6)
    assert (result.scope, result.n_trials, result.n_samples, result.ci_method) == ("across_trials", 3, 300, STUDENT)


def test_welch_interval_by_hand() -> None:
    """Variances 1 (n = 3) and 4 (n = 5): se^2 = 1/3 + 4/5, freedom = se^4 / ((1/3)^2 / 2 + (4/5)^2 / 4) = 5.96."""
    first = np.array([-1.0, 0.0, 1.0])
    second = np.array([-2.0, -2.0, 0.0, 2.0, 2.0])
    # t(5.9575) at 97.5 %, between the tables' t(5) = 2.5706 and t(6) = 2.4469.
    half = welch_half_width(first, second)
    assert half / math.sqrt(1 / 3 + 4 / 5) == pytest.approx(2.4469, abs=0.01)
    result = welch_ratio(np.exp(first), np.exp(second + 1))
    assert result.value == pytest.approx(math.e)
    assert bounds(result) == pytest.approx((math.exp(1 - half), math.exp(1 + half)))


def test_a_linear_drift_cancels_in_a_b_b_a() -> None:
    logs = np.array([0, 0.1, 0.1, 0] * 3) + 0.01 * np.arange(12)
    result = abba_ratio(np.exp(logs))
    assert result.value == pytest.approx(math.exp(0.1))
    assert bounds(result) == pytest.approx((math.exp(0.1), math.exp(0.1)))


def test_coverage_of_the_across_trial_interval() -> None:
    rng = np.random.default_rng(1)
    for n in (2, 3, 5):
        logs = rng.normal(0, 0.02, size=(SIMULATIONS, n))
        covered = [abs(sample.mean()) <= student_half_width(sample) for sample in logs]
        assert 0.93 <= np.mean(covered) <= 0.97, n


def test_coverage_of_welch() -> None:
    """Welch is a little conservative for 3 trials of very unequal spread; 0.98 is then the known upper end."""
    rng = np.random.default_rng(2)
    for sizes, spreads, highest in (((5, 5), (1, 3), 0.97), ((3, 6), (1, 1), 0.97), ((3, 3), (1, 2), 0.98)):
        first = rng.normal(0, 0.01 * spreads[0], size=(SIMULATIONS, sizes[0]))
        second = rng.normal(0, 0.01 * spreads[1], size=(SIMULATIONS, sizes[1]))
        covered = [abs(b.mean() - a.mean()) <= welch_half_width(a, b) for a, b in zip(first, second, strict=True)]
        assert 0.93 <= np.mean(covered) <= highest, sizes


def test_coverage_of_pairs_that_share_a_drift() -> None:
    rng = np.random.default_rng(3)
    drift = rng.normal(0, 0.2, size=(SIMULATIONS, 4))
    base = np.exp(drift + rng.normal(0, 0.01, size=drift.shape))
    other = np.exp(drift + 0.05 + rng.normal(0, 0.01, size=drift.shape))
    results = [paired_ratio(a, b) for a, b in zip(base, other, strict=True)]
    assert 0.93 <= np.mean([low <= math.exp(0.05) <= high for low, high in map(bounds, results)]) <= 0.97
    # The shared drift of 20 % is gone: the interval is as wide as the noise of 1.4 % makes it.
    assert np.median([high - low for low, high in map(bounds, results)]) < 0.06


def test_coverage_of_abba_under_a_linear_drift() -> None:
    rng = np.random.default_rng(4)
    logs = np.array([0, 0.05, 0.05, 0] * 3) + 0.02 * np.arange(12) + rng.normal(0, 0.01, size=(SIMULATIONS, 12))
    results = [bounds(abba_ratio(np.exp(sample))) for sample in logs]
    assert 0.93 <= np.mean([low <= math.exp(0.05) <= high for low, high in results]) <= 0.97


@pytest.mark.parametrize("n", [10, 15])
def test_coverage_of_the_bootstrap(n: int) -> None:
    logs = np.random.default_rng(5).normal(0, 0.02, size=(600, n))
    intervals = [bootstrap_t(sample) for sample in logs]
    assert 0.93 <= np.mean([low <= 0 <= high for low, high in intervals]) <= 0.97


def test_ten_trials_are_bootstrapped_the_same_way_every_time() -> None:
    values = np.exp(np.random.default_rng(6).normal(0, 0.02, size=10)).tolist()
    first, second = across_trials(trials(*values)), across_trials(trials(*values))
    assert first == second
    assert first.ci_method == BOOTSTRAP


def test_throughput_and_step_time_stay_reciprocal_across_trials() -> None:
    times = [0.1, 0.12, 0.15]
    step_time = across_trials(trials(*times))
    rate = across_trials([quantity(32 / time, "samples/s", "mean") for time in times])
    assert step_time.value is not None and rate.value is not None
    assert step_time.value * rate.value == pytest.approx(32)
    assert bounds(step_time)[0] * bounds(rate)[1] == pytest.approx(32)


def test_one_trial_stays_within_trial() -> None:
    only = quantity(1.0, "s", "mean", ci95=(0.9, 1.1), ci_method="within")
    assert across_trials([only]) == only
    assert across_trials([only, unknown("s", "measured", "mean", "died")]) == only


def test_values_that_are_not_positive_are_not_logged() -> None:
    result = across_trials([quantity(value, "1", "jitter", kind="derived") for value in (-1.0, 0.0, 1.0)])
    half = 4.302653 / math.sqrt(3)
    assert result.value == 0
    assert bounds(result) == pytest.approx((-half, half), rel=1e-6)
    assert result.ci_method == STUDENT_PLAIN


def test_all_trials_unknown_is_unknown_with_the_reason() -> None:
    result = across_trials([unknown("1", "derived", "mfu", "no peak")] * 2)
    assert (result.value, result.reason) == (None, "no peak")


def test_identical_trials_have_a_point_for_an_interval() -> None:
    assert bounds(across_trials(trials(1.0, 1.0))) == (1.0, 1.0)
    assert bounds(across_trials(trials(*[1.0] * 10))) == (1.0, 1.0)
    assert bounds(welch_ratio([1.0, 1.0], [2.0, 2.0])) == pytest.approx((2.0, 2.0))


def test_two_wildly_different_trials_have_no_interval_rather_than_an_infinite_one() -> None:
    assert across_trials(trials(1e-100, 1e100)).ci95 is None


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="no trials"):
        across_trials([])
    with pytest.raises(ValueError, match="unit, kind and statistic"):
        across_trials([*trials(1.0), quantity(1.0, "ms", "mean")])
    with pytest.raises(ValueError, match="2 trials of each"):
        welch_ratio([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="at least 2 pairs"):
        paired_ratio([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="multiple of 4"):
        abba_ratio([1.0] * 6)
    with pytest.raises(ValueError, match="positive"):
        welch_ratio([1.0, 0.0], [1.0, 2.0])
