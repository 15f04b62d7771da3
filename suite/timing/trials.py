"""Inference across trials: the trial (an independent launch) is the unit, and step times differ by factors, so logs.

Intervals are 95 %. Logarithms make the interval of a throughput the reciprocal of that of the step time, and the
geometric mean keeps throughput x step time == global batch across trials too.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tfscale.suite.record import Quantity, unknown
from tfscale.suite.timing.statistics import t_quantile

STUDENT = "Student t on log trial means"
STUDENT_PLAIN = "Student t on trial means (not all positive, so no logarithms)"
BOOTSTRAP = "bootstrap-t over log trial means"
WELCH = "Welch t on log trial means"
PAIRED = "Student t on paired log ratios"
FEWEST_FOR_BOOTSTRAP = 10
_RESAMPLES = 4999

Series = NDArray[np.float64]


def across_trials(trials: Sequence[Quantity]) -> Quantity:
    """One quantity over the trials of a case: geometric mean of the trial values, interval across trials.

    Student t on log trial means from 2 trials, bootstrap over trials from 10. Trials whose value is null are left out
    (`n_trials` counts the others). A single trial is returned as it is, with its `within_trial` interval; values that
    are not all positive get an arithmetic mean. Raises ValueError for no trials, or where trials
    with a value differ in unit, kind or statistic.
    """
    if not trials:
        raise ValueError("no trials to combine")
    known = [trial for trial in trials if trial.value is not None]
    if len({(trial.unit, trial.kind, trial.statistic) for trial in known}) > 1:
        raise ValueError("trials of one quantity must agree in unit, kind and statistic")
    if not known:
        first = trials[0]
        return unknown(first.unit, first.kind, first.statistic, first.reason or "unknown in every trial")
    if len(known) == 1:
        return known[0]
    values = np.array([trial.value for trial in known], dtype=np.float64)
    centre, interval, method = _estimate(values)
    counts = [trial.n_samples for trial in known]
    return known[0].model_copy(
        update={
            "value": centre,
            "n_trials": len(known),
            "n_samples": None if None in counts else sum(count or 0 for count in counts),
            "ci95": interval,
            "ci_method": method,
            "scope": "across_trials",
        }
    )


def _estimate(values: Series) -> tuple[float, tuple[float, float] | None, str]:
    """Centre, interval and method for trial means (n >= 2,)."""
    if np.any(values <= 0):
        centre, half = float(values.mean()), student_half_width(values)
        return centre, (centre - half, centre + half), STUDENT_PLAIN
    logs = np.log(values)
    centre = float(logs.mean())
    if values.size >= FEWEST_FOR_BOOTSTRAP:
        low, high = bootstrap_t(logs)
        return math.exp(centre), _exponential(low, high), BOOTSTRAP
    half = student_half_width(logs)
    return math.exp(centre), _exponential(centre - half, centre + half), STUDENT


def half_width(quantity: Quantity) -> float | None:
    """Relative half-width of the 95 % interval, None where there is no interval."""
    if quantity.value in (None, 0) or quantity.ci95 is None:
        return None
    assert quantity.value is not None
    return (quantity.ci95[1] - quantity.ci95[0]) / 2 / abs(quantity.value)


def student_half_width(values: Series) -> float:
    """t(n - 1) s / sqrt(n) for independent `values` (n >= 2,)."""
    return t_quantile(values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)


def bootstrap_t(values: Series) -> tuple[float, float]:
    """Interval for the mean of `values` (n >= 10,) by the bootstrap-t (Efron and Tibshirani 1993, section 12.5).

    The plain percentile interval covers 90 % at n = 10. The generator is seeded: the same trials, the same interval.
    """
    count, centre, error = values.size, float(values.mean()), float(values.std(ddof=1)) / math.sqrt(values.size)
    if error == 0:
        return centre, centre
    drawn = values[np.random.default_rng(0).integers(0, count, size=(_RESAMPLES, count))]
    errors = drawn.std(axis=1, ddof=1) / math.sqrt(count)
    usable = errors > 0
    ratios = (drawn.mean(axis=1)[usable] - centre) / errors[usable]
    low, high = np.quantile(ratios, [0.025, 0.975])
    return centre - float(high) * error, centre - float(low) * error


def welch_ratio(base: ArrayLike, other: ArrayLike) -> Quantity:
    """`other` / `base` as the ratio of geometric means of the trial means of two cases, with Welch's interval on logs.

    Degrees of freedom by Welch (1947) and Satterthwaite (1946). Raises ValueError below 2 trials each, or for values
    that are not positive.
    """
    logs = [_logs(base), _logs(other)]
    if min(series.size for series in logs) < 2:
        raise ValueError("Welch's interval needs at least 2 trials of each case")
    centre = float(logs[1].mean() - logs[0].mean())
    return _ratio(centre, welch_half_width(*logs), WELCH, min(series.size for series in logs))


def welch_half_width(first: Series, second: Series) -> float:
    """Half-width of Welch's 95 % interval for the difference of the means of two samples (n >= 2,) each."""
    error, freedom = welch_error(first, second)
    return t_quantile(freedom) * error


def welch_error(first: Series, second: Series) -> tuple[float, float]:
    """Standard error of the difference of the means of two samples (n >= 2,) each, and its degrees of freedom."""
    shares = [float(sample.var(ddof=1)) / sample.size for sample in (first, second)]
    total = sum(shares)
    if total == 0:
        return 0.0, float(first.size + second.size - 2)
    weights = [share / total for share in shares]
    freedom = 1 / sum(weight**2 / (sample.size - 1) for weight, sample in zip(weights, (first, second), strict=True))
    return math.sqrt(total), freedom


def paired_ratio(base: ArrayLike, other: ArrayLike) -> Quantity:
    """`other` / `base` over pairs of trials run side by side: t on log(other / base).

    Raises ValueError for different lengths, fewer than 2 pairs, or values that are not positive.
    """
    first, second = _logs(base), _logs(other)
    if first.size != second.size or first.size < 2:
        raise ValueError(f"paired ratios need at least 2 pairs, got {first.size} and {second.size} values")
    differences = second - first
    return _ratio(float(differences.mean()), student_half_width(differences), PAIRED, differences.size)


def abba_ratio(values: ArrayLike) -> Quantity:
    """B / A from trials in the order A B B A, A B B A, ... (4 n,), n >= 2: one log ratio a quadruple.

    A drift that is linear over a quadruple cancels exactly. Raises ValueError as `paired_ratio`, and for a length
    that is no multiple of 4.
    """
    logs = _logs(values)
    if logs.size % 4:
        raise ValueError(f"A B B A needs a multiple of 4 trials, got {logs.size}")
    quadruples = logs.reshape(-1, 4)
    return paired_ratio(np.exp(quadruples[:, [0, 3]].mean(axis=1)), np.exp(quadruples[:, [1, 2]].mean(axis=1)))


def _ratio(log_ratio: float, half: float, method: str, trials: int) -> Quantity:
    return Quantity(
        value=math.exp(log_ratio),
        unit="1",
        kind="derived",
        statistic="ratio of geometric means",
        n_trials=trials,
        ci95=_exponential(log_ratio - half, log_ratio + half),
        ci_method=method,
        scope="across_trials",
    )


def _exponential(low: float, high: float) -> tuple[float, float] | None:
    """Both ends back from logarithms; None where two trials differ so wildly that the upper end overflows."""
    return (math.exp(low), math.exp(high)) if high < 700 else None


def _logs(values: ArrayLike) -> Series:
    series = np.asarray(values, dtype=np.float64)
    if series.ndim != 1 or not np.all(series > 0):
        raise ValueError("trial means must be a one-dimensional series of positive values")
    return np.asarray(np.log(series), dtype=np.float64)
