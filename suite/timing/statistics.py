"""Statistics of one trial, as quantities that say what they are. Across trials: trials.py."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tfscale.suite.record import Kind, Quantity, unknown
from tfscale.suite.timing.autocorrelation import effective_sample_size, long_run_variance

WITHIN_TRIAL = "Student t with the effective sample size (long-run variance: larger of AR(1) and Geyer)"
FEWEST_FOR_INTERVAL = 8
_FEWEST_FOR_PERCENTILE = {95: 20, 99: 100}


def t_quantile(freedom: float) -> float:
    """97.5 % quantile of Student's t: a 95 % interval's half-width in standard errors. `freedom` may be fractional."""
    # scipy takes a third of a second to import and only commands that compute intervals should pay for it.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


def mean_half_width(values: NDArray[np.float64]) -> float:
    """Half-width of the 95 % interval for the mean of the stationary, autocorrelated `values` (n,).

    t(ESS - 1) sqrt(long-run variance / n). Covers at least 93 % for AR(1) up to 0.7 and 30 values (tests/timing).
    Infinite below 8 values.
    """
    if values.size < FEWEST_FOR_INTERVAL:
        return math.inf
    freedom = effective_sample_size(values) - 1
    return t_quantile(freedom) * math.sqrt(long_run_variance(values) / values.size)


def quantity(value: float, unit: str, statistic: str, *, kind: Kind = "measured", **more: Any) -> Quantity:
    """A known quantity of one trial; `more` are further fields of `Quantity`."""
    return Quantity(value=value, unit=unit, kind=kind, statistic=statistic, **more)


def mean(values: ArrayLike, unit: str = "s") -> Quantity:
    """Mean of a positive block series (n,) of the steady window, with its `within_trial` interval (none below 8 blocks).

    Blocks have equal steps, so the mean over blocks of seconds per step is elapsed time / steps. The interval is
    formed on the logarithm (half-width: the mean's, relative), so that it stays positive and the throughput's is its
    reciprocal; where it is narrow that is the plain one. Raises ValueError for an empty series.
    """
    series = _series(values)
    centre, half = float(series.mean()), mean_half_width(series)
    # Beyond e^3 either way the blocks say nothing about their mean.
    known = centre > 0 and half / centre < 3
    interval = (centre * math.exp(-half / centre), centre * math.exp(half / centre)) if known else None
    return quantity(
        centre, unit, "mean", n_samples=series.size, ci95=interval, ci_method=WITHIN_TRIAL if interval else None
    )


def median(values: ArrayLike, unit: str = "s") -> Quantity:
    """Median of a series (n,), without interval. Raises ValueError for an empty series."""
    series = _series(values)
    return quantity(float(np.median(series)), unit, "median", n_samples=series.size)


def percentile(values: ArrayLike, percent: int, unit: str = "s") -> Quantity:
    """`percent` (95 or 99) percentile of per-step durations (n,), linear between order statistics (Hyndman-Fan type 7).

    Null where there are too few steps for one to lie beyond it (20 for p95, 100 for p99).
    """
    series, least = _series(values), _FEWEST_FOR_PERCENTILE[percent]
    if series.size < least:
        return unknown(unit, "measured", f"p{percent}", f"needs {least} stamped steps, got {series.size}")
    return quantity(float(np.percentile(series, percent)), unit, f"p{percent}", n_samples=series.size)


def tails(durations: ArrayLike, unit: str = "s") -> dict[str, Quantity]:
    """p95, p99 and max of the per-step durations (n,) of the stamped pass."""
    series = _series(durations)
    return {
        "p95": percentile(series, 95, unit),
        "p99": percentile(series, 99, unit),
        "max": quantity(float(series.max()), unit, "max", n_samples=series.size),
    }


def jitter(values: ArrayLike) -> Quantity:
    """mean / median - 1, dimensionless: how much of the mean its slow steps cost. Raises ValueError for median 0."""
    series = _series(values)
    middle = float(np.median(series))
    if middle == 0:
        raise ValueError("jitter is mean / median - 1 and the median is 0")
    return quantity(float(series.mean()) / middle - 1, "1", "jitter", kind="derived", n_samples=series.size)


def throughput(step_time: Quantity, global_batch: float, unit: str = "samples/s") -> Quantity:
    """Samples / elapsed of the steady window = global batch / mean step time, interval included.

    `global_batch` is samples / steps as the ranks counted them. Null, with the reason, where the step time is.
    Raises ValueError unless `step_time` is a mean in seconds.
    """
    if step_time.unit != "s" or "mean" not in step_time.statistic:
        raise ValueError(f"throughput needs a mean step time in s, not the {step_time.statistic} in {step_time.unit}")
    if step_time.value is None:
        return unknown(unit, step_time.kind, step_time.statistic, step_time.reason or "no step time")
    interval = step_time.ci95
    # An interval that reaches zero time has no upper throughput.
    inverse = (global_batch / interval[1], global_batch / interval[0]) if interval and interval[0] > 0 else None
    return step_time.model_copy(
        update={
            "value": global_batch / step_time.value,
            "unit": unit,
            "ci95": inverse,
            "ci_method": step_time.ci_method if inverse else None,
        }
    )


def _series(values: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
    series = np.asarray(values, dtype=np.float64)
    if series.ndim != 1 or series.size == 0:
        raise ValueError(f"a statistic needs a one-dimensional, non-empty series, got shape {series.shape}")
    return series
