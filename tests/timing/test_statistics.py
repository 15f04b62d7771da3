import numpy as np
import pytest

from tfscale.suite.record import unknown
from tfscale.suite.timing.statistics import (
    jitter,
    mean,
    mean_half_width,
    median,
    percentile,
    t_quantile,
    tails,
    throughput,
)


@pytest.mark.parametrize(("freedom", "expected"), [(1, 12.706), (2, 4.303), (9, 2.262), (30, 2.042), (1e9, 1.960)])
def test_t_quantiles_are_those_of_the_tables(freedom: float, expected: float) -> None:
    assert t_quantile(freedom) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("n", [30, 120])
def test_within_trial_interval_covers_the_mean_of_autocorrelated_blocks(ar1, rho: float, n: int) -> None:
    covered = [abs(values.mean() - 1) <= mean_half_width(values) for values in ar1(rho, n, 1000, seed=11)]
    assert np.mean(covered) >= 0.93


def test_mean_says_what_it_is() -> None:
    quantity = mean(np.tile([0.1, 0.3], 20))
    assert quantity.value == pytest.approx(0.2)
    assert (quantity.unit, quantity.kind, quantity.statistic) == ("s", "measured", "mean")
    assert quantity.scope == "within_trial"
    assert quantity.n_samples == 40
    assert quantity.ci95 is not None and quantity.ci95[0] < 0.2 < quantity.ci95[1]
    assert "effective sample size" in (quantity.ci_method or "")


def test_a_few_blocks_have_a_mean_but_no_interval() -> None:
    quantity = mean([1.0, 2.0, 6.0])
    assert (quantity.value, quantity.ci95, quantity.ci_method) == (3.0, None, None)


def test_mean_median_and_jitter_of_a_known_series() -> None:
    values = [1.0] * 9 + [2.0]
    assert median(values).value == 1.0
    assert jitter(values).value == pytest.approx(0.1)
    assert (jitter(values).unit, jitter(values).kind) == ("1", "derived")


def test_tails_of_one_to_hundred() -> None:
    """Type 7 of Hyndman and Fan: position (n - 1) p."""
    found = tails(np.arange(1.0, 102.0))
    assert {name: quantity.value for name, quantity in found.items()} == {"p95": 96.0, "p99": 100.0, "max": 101.0}


def test_a_percentile_beyond_the_data_is_unknown() -> None:
    assert percentile(np.ones(99), 99).value is None
    assert "100 stamped steps" in (percentile(np.ones(99), 99).reason or "")
    assert percentile(np.ones(99), 95).value == 1.0


def test_throughput_times_step_time_is_the_batch_at_all_three_points() -> None:
    step_time = mean(np.random.default_rng(0).normal(0.2, 0.01, size=50))
    rate = throughput(step_time, 64.0)
    assert rate.value is not None and step_time.value is not None
    assert rate.ci95 is not None and step_time.ci95 is not None
    assert rate.value * step_time.value == pytest.approx(64)
    assert rate.ci95[0] * step_time.ci95[1] == pytest.approx(64)
    assert rate.ci95[1] * step_time.ci95[0] == pytest.approx(64)
    assert rate.unit == "samples/s"


def test_throughput_needs_a_mean_and_passes_unknown_on() -> None:
    with pytest.raises(ValueError, match="mean step time"):
        throughput(median([1.0, 2.0]), 8)
    assert throughput(unknown("s", "measured", "mean", "the rank died"), 8).reason == "the rank died"


def test_an_empty_series_is_refused() -> None:
    with pytest.raises(ValueError, match="non-empty"):
        mean([])
