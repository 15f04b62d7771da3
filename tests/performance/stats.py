"""Intervals of the comparisons, from the suite's own statistics. The unit is a launch, or a pair of launches."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from tfscale.suite.record import Quantity
from tfscale.suite.timing.statistics import quantity
from tfscale.suite.timing.trials import paired_ratio, student_half_width


def mean_difference(base: Sequence[float], other: Sequence[float], unit: str) -> Quantity:
    """Mean of base - other over pairs, with Student's interval (none for a single pair)."""
    differences = np.asarray(base, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    return mean(differences.tolist(), unit, kind="derived")


def mean(values: Sequence[float], unit: str, *, kind: str = "measured") -> Quantity:
    """Arithmetic mean of independent values with Student's interval (none for a single value)."""
    series = np.asarray(values, dtype=np.float64)
    centre = float(series.mean())
    half = student_half_width(series) if series.size > 1 else math.inf
    interval = (centre - half, centre + half) if math.isfinite(half) else None
    return quantity(centre, unit, "mean", kind=kind, n_trials=series.size, n_samples=series.size, ci95=interval)  # type: ignore[arg-type]


def half_width(ratio: Quantity) -> float:
    """Half the width of the interval, relative to the value."""
    if ratio.ci95 is None or ratio.value is None:
        return math.inf
    return (ratio.ci95[1] - ratio.ci95[0]) / 2 / ratio.value


def pairs_until(
    pair: Callable[[int], tuple[float, float]], *, least: int, most: int, enough: Callable[[Quantity], bool]
) -> tuple[list[float], list[float], Quantity]:
    """Take pairs (base, other) until `enough(ratio other / base)`; looked at on doubling counts only.

    Looking after every pair would stop on lucky intervals; pair number k swaps its order when k is odd (A B B A).
    """
    base: list[float] = []
    other: list[float] = []
    look = least
    while True:
        first, second = pair(len(base))
        base.append(first)
        other.append(second)
        if len(base) < look:
            continue
        ratio = paired_ratio(base, other)
        if enough(ratio) or len(base) >= most:
            return base, other, ratio
        look = min(most, 2 * look)
