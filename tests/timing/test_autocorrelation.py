import numpy as np
import pytest

from tfscale.suite.timing.autocorrelation import autocovariance, effective_sample_size, long_run_variance


def test_autocovariance_is_the_definition() -> None:
    values = np.random.default_rng(0).normal(size=50)
    centred = values - values.mean()
    expected = [float(centred[lag:] @ centred[: 50 - lag]) / 50 for lag in range(50)]
    np.testing.assert_allclose(autocovariance(values), expected, atol=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.7])
def test_long_series_reach_the_closed_form_of_ar1(ar1, rho: float) -> None:
    """Long-run variance of AR(1): s^2 (1 + rho) / (1 - rho). Errs to the large side, by less as n grows."""
    series = ar1(rho, 20_000, 5, cv=0.1)
    truth = 0.1**2 * (1 + rho) / (1 - rho)
    ratios = [long_run_variance(values) / truth for values in series]
    assert 0.98 < np.mean(ratios) < 1.15


def test_white_noise_over_a_slow_drift_is_not_underestimated(ar1) -> None:
    """An AR(1) fit alone would say (1 + .35) / (1 - .35) = 2.1; the truth is .5 (1 + .7) / (1 - .7) + .5 = 3.3."""
    drift, noise = ar1(0.7, 20_000, 5, cv=1.0, seed=1), ar1(0.0, 20_000, 5, cv=1.0, seed=2)
    values = np.sqrt(0.5) * drift + np.sqrt(0.5) * noise
    assert np.mean([long_run_variance(series) for series in values]) == pytest.approx(0.5 * 1.7 / 0.3 + 0.5, rel=0.1)


def test_effective_sample_size_of_ar1(ar1) -> None:
    """n (1 - rho) / (1 + rho)."""
    sizes = [effective_sample_size(values) for values in ar1(0.7, 20_000, 5)]
    assert np.mean(sizes) == pytest.approx(20_000 * 0.3 / 1.7, rel=0.1)


def test_negative_autocorrelation_is_not_credited() -> None:
    values = np.tile([1.0, 2.0], 100)
    assert effective_sample_size(values) <= 200


def test_a_constant_series_has_no_variance() -> None:
    assert long_run_variance(np.full(50, 0.1)) == 0
    assert effective_sample_size(np.full(50, 0.1)) == 50


def test_too_short_a_series_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 8"):
        long_run_variance(np.ones(7))
