"""Ratios of two settings against closed forms, published power tables, and simulations whose truth is known."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "performance"))
import comparisons

from tfscale.suite.analysis.comparison import (
    MEMBERS,
    LogRatio,
    geometric_mean,
    log_ratio,
    ratio_of,
    shown,
    trials_needed,
)
from tfscale.suite.timing.trials import PAIRED, WELCH, paired_ratio, welch_ratio


def spread(sd: float) -> list[float]:
    """Three trials whose logarithms have exactly this standard deviation."""
    return [math.exp(-sd), 1.0, math.exp(sd)]


def test_the_ratio_is_that_of_geometric_means_with_welchs_interval() -> None:
    a, b = [100.0, 103.0, 101.0], [121.0, 118.0, 125.0, 122.0, 120.0]
    found, known = ratio_of(log_ratio(a, b)), welch_ratio(a, b)
    assert found.value == pytest.approx(math.exp(np.log(b).mean() - np.log(a).mean()))
    assert found.ci95 == pytest.approx(known.ci95)
    assert (found.ci_method, found.n_trials, found.scope) == (WELCH, 3, "across_trials")
    back = ratio_of(log_ratio(b, a))
    assert back.ci95 is not None and found.ci95 is not None
    assert (1 / back.ci95[1], 1 / back.ci95[0]) == pytest.approx(found.ci95)


def test_pairs_have_students_interval_of_their_log_ratios() -> None:
    a, b = [100.0, 80.0, 60.0], [110.0, 90.0, 66.0]
    found = ratio_of(log_ratio(a, b, paired=True))
    assert found.ci95 == pytest.approx(paired_ratio(a, b).ci95)
    assert found.ci_method == PAIRED
    with pytest.raises(ValueError, match="as many trials of A as of B, got 3 and 2"):
        log_ratio(a, b[:2], paired=True)


def test_one_trial_a_side_has_a_ratio_without_interval_and_shows_nothing() -> None:
    for a, b in (([2.0], [3.0]), ([2.0], [3.0, 3.0, 3.0])):
        found = ratio_of(log_ratio(a, b))
        assert (found.value, found.ci95, found.ci_method) == (pytest.approx(1.5), None, None)
        assert shown(found) == "no_interval"


@pytest.mark.parametrize(
    ("centre", "error", "verdict"),
    [(0.05, 0.01, "faster"), (-0.05, 0.01, "slower"), (0.05, 0.2, "no_difference_shown")],
)
def test_what_an_interval_shows(centre: float, error: float, verdict: str) -> None:
    assert shown(ratio_of(LogRatio(centre, error, 10, 5))) == verdict


@pytest.mark.parametrize(("size", "trials"), [(0.2, 394), (0.5, 64), (0.8, 26), (1.0, 17)])
def test_trials_needed_are_those_of_cohens_table(size: float, trials: int) -> None:
    """Cohen (1988), table 2.4.1: two means, two-tailed 5 %, power 0.80, at d = 0.2, 0.5, 0.8, 1.0 (393, 64, 26, 17).

    For d = 0.2 the table is rounded down from 393.4; power 0.80 is reached with 394.
    """
    sd = math.log1p(0.02) / size
    assert trials_needed(spread(sd), spread(sd)) == trials


@pytest.mark.parametrize(("size", "pairs"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_pairs_needed_are_those_of_the_one_sample_t_test(size: float, pairs: int) -> None:
    """G*Power 3.1, difference from constant, two-tailed 5 %, power 0.80: 199, 34, 15."""
    sd = math.log1p(0.02) / size
    a = [10.0, 20.0, 5.0]
    b = [one * other for one, other in zip(a, spread(sd), strict=True)]
    assert trials_needed(a, b, paired=True) == pairs


def test_the_trials_that_are_told_really_show_the_difference_four_times_of_five() -> None:
    a_sd, b_sd, effect = 0.01, 0.02, 0.01
    trials = trials_needed(spread(a_sd), spread(b_sd), effect=effect)
    assert trials is not None
    rng = np.random.default_rng(5)
    a = np.exp(rng.normal(0, a_sd, (2000, trials)))
    b = np.exp(rng.normal(math.log1p(effect), b_sd, (2000, trials)))
    seen = np.mean([shown(ratio_of(log_ratio(x, y))) == "faster" for x, y in zip(a, b, strict=True)])
    assert seen == pytest.approx(0.8, abs=0.04)


def test_trials_needed_at_the_ends() -> None:
    assert trials_needed([1.0, 1.0], [1.0, 1.0]) == 2
    assert trials_needed(spread(0.9), spread(0.9)) is None
    with pytest.raises(ValueError, match="at least 2 trials"):
        trials_needed([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="effect"):
        trials_needed(spread(0.1), spread(0.1), effect=0)


def test_a_geometric_mean_by_hand() -> None:
    """Ratios 1.1 and 1.2 with log errors 0.03 and 0.04: error sqrt(0.0025) / 2, freedom 0.0025^2 / (0.03^4/4 + 0.04^4/9)."""
    members = [LogRatio(math.log(1.1), 0.03, 4, 3), LogRatio(math.log(1.2), 0.04, 9, 5)]
    found = geometric_mean(members)
    freedom = 0.0025**2 / (0.03**4 / 4 + 0.04**4 / 9)
    assert freedom == pytest.approx(12.8, abs=0.05)
    half = 2.1638 * 0.025  # t(12.8) at 97.5 %, between the tables' t(12) = 2.1788 and t(13) = 2.1604
    assert found.value == pytest.approx(math.sqrt(1.1 * 1.2))
    assert found.ci95 is not None and found.value is not None
    assert math.log(found.ci95[1] / found.value) == pytest.approx(half, rel=2e-3)
    assert (found.n_trials, found.ci_method) == (3, MEMBERS)


def test_the_mean_of_one_member_is_that_member_and_of_one_without_interval_has_none() -> None:
    one = LogRatio(0.1, 0.02, 4, 3)
    assert geometric_mean([one]).ci95 == pytest.approx(ratio_of(one).ci95)
    assert geometric_mean([one, LogRatio(0.1, None, None, 1)]).ci95 is None
    with pytest.raises(ValueError, match="at least one"):
        geometric_mean([])


@pytest.mark.parametrize("trials", comparisons.SIZES)
def test_the_interval_holds_the_true_ratio_as_often_as_it_says(trials: int) -> None:
    shares = [comparisons.covered(seed, 500, trials) for seed in (101, 102, 103, 104)]
    assert 0.93 <= np.mean(shares) <= 0.975, shares


def test_so_do_pairs_on_a_machine_that_drifts_and_means_over_cases() -> None:
    assert 0.93 <= np.mean([comparisons.covered_pairs(seed, 500, 4) for seed in (201, 202, 203)]) <= 0.975
    assert 0.93 <= np.mean([comparisons.covered_means(seed, 300, 3) for seed in (301, 302, 303)]) <= 0.98


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        log_ratio([1.0, 0.0], [1.0])
    with pytest.raises(ValueError, match="non-empty"):
        log_ratio([], [1.0])
