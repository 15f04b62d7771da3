"""Intervals of the comparisons, from the suite's own statistics. The unit is a launch, or a pair of launches."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from tfscale.suite.record import Kind, Quantity
from tfscale.suite.timing.statistics import quantity
from tfscale.suite.timing.trials import paired_ratio, student_half_width


def mean_difference(base: Sequence[float], other: Sequence[float], unit: str) -> Quantity:
    """Arithmetic mean of base - other over pairs, with Student's interval (none for a single pair)."""
    differences = np.asarray(base, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    centre = float(differences.mean())
    half = student_half_width(differences) if differences.size > 1 else math.inf
    interval = (centre - half, centre + half) if math.isfinite(half) else None
    return _quantity(centre, interval, unit, "mean difference", "derived", differences.size)


def mean(values: Sequence[float], unit: str) -> Quantity:
    """Geometric mean of independent positive values with Student's interval on logs (none for a single value)."""
    logs = np.log(np.asarray(values, dtype=np.float64))
    centre = float(logs.mean())
    half = student_half_width(logs) if logs.size > 1 else math.inf
    interval = (math.exp(centre - half), math.exp(centre + half)) if half < 300 else None
    return _quantity(math.exp(centre), interval, unit, "geometric mean", "measured", logs.size)


def _quantity(
    value: float, interval: tuple[float, float] | None, unit: str, statistic: str, kind: Kind, n: int
) -> Quantity:
    return quantity(value, unit, statistic, kind=kind, n_trials=n, n_samples=n, ci95=interval)


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
