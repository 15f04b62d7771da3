"""How surprising a step is after it was looked for, and which of many steps to believe. Pure, numpy only.

The place of a step is chosen because the series moves there, so the statistic at that place is larger than Student's t
says. Its tail under no change was simulated (`simulated_tail`; tests do so again on seeds of their own) and is looked
up here. False discoveries over many cases are then controlled after Benjamini and Hochberg (1995).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.timing.autocorrelation import ar1_long_run_variance

Series = NDArray[np.float64]

FEWEST = 3
"""Values on the shorter side of a step from which its statistic is taken."""
TAILS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002)
QUANTILES: dict[int, tuple[float, ...]] = {
    10: (0.58, 1.22, 1.72, 2.18, 2.75, 3.22, 3.68, 4.34, 4.87, 5.50, 6.38),
    12: (0.74, 1.42, 1.92, 2.39, 2.97, 3.42, 3.85, 4.41, 4.76, 5.28, 6.15),
    16: (0.96, 1.63, 2.14, 2.61, 3.22, 3.63, 4.05, 4.56, 5.01, 5.31, 5.83),
    20: (1.11, 1.75, 2.25, 2.71, 3.27, 3.68, 4.07, 4.59, 5.02, 5.35, 5.84),
    30: (1.34, 1.90, 2.35, 2.77, 3.33, 3.69, 4.11, 4.59, 5.03, 5.50, 5.84),
    40: (1.46, 2.01, 2.39, 2.78, 3.28, 3.68, 4.02, 4.49, 4.87, 5.09, 5.46),
    80: (1.69, 2.21, 2.53, 2.83, 3.21, 3.50, 3.80, 4.18, 4.42, 4.78, 5.16),
    160: (1.85, 2.34, 2.64, 2.91, 3.23, 3.47, 3.73, 3.98, 4.19, 4.41, 4.63),
}
"""n -> the statistic that so large a share of series without a change exceeds (TAILS): `simulated_tail` with seed
1000 n + 10 rho, 60,000 series for each rho of 0, 0.2 and 0.4 (25,000 from n = 80), the largest of the three."""
LEAST_P = 1e-5
"""What lies further out than the simulation reaches is not told apart."""


def standard_error(values: Series, index: int) -> float:
    """Of the difference of the means of `values` [0, index) and [index, n), their long-run variance pooled."""
    sides = (values[:index], values[index:])
    left = np.concatenate([side - side.mean() for side in sides])
    variance = ar1_long_run_variance(left, left.size / 2)
    # Two means were taken off: the divisor is n - 2, as for the pooled variance.
    variance *= left.size / max(left.size - 2, 1)
    return math.sqrt(variance * sum(1 / side.size for side in sides))


def step_statistic(values: Series, index: int) -> float:
    """|difference of the means at `index`| in standard errors of `values` (n,), autocorrelation and all.

    Infinite for a step without noise, 0 for none. Raises ValueError where a side has fewer than FEWEST values.
    """
    if min(index, values.size - index) < FEWEST:
        raise ValueError(f"a step needs {FEWEST} values on either side, got {index} and {values.size - index}")
    difference = abs(float(values[index:].mean() - values[:index].mean()))
    error = standard_error(values, index)
    if error <= 1e-12 * max(float(np.abs(values).max()), 1e-300):
        return math.inf if difference > 1e-9 * float(np.abs(values).max()) else 0.0
    return difference / error


def largest_statistic(values: Series) -> float:
    """Over the place of least squares, which is the one that a search finds."""
    size = np.arange(FEWEST, values.size - FEWEST + 1)
    sums = np.cumsum(values)
    before, after = sums[size - 1] / size, (sums[-1] - sums[size - 1]) / (values.size - size)
    gain = (after - before) ** 2 * size * (values.size - size) / values.size
    return step_statistic(values, int(size[gain.argmax()]))


def simulated_tail(n: int, rho: float, seed: int, repeats: int) -> Series:
    """`largest_statistic` of `repeats` AR(1) series of `n` normal values without a change, sorted."""
    noise = np.random.default_rng(seed).normal(size=(repeats, n + 50))
    for night in range(1, n + 50):
        noise[:, night] += rho * noise[:, night - 1]
    return np.sort([largest_statistic(one) for one in noise[:, 50:]])


def step_p(statistic: float, n: int) -> float:
    """Chance of so large a step in the best place of `n` values without a change, at least LEAST_P.

    Between the simulated tails log p runs linearly with the statistic, and so it does between the simulated lengths
    with the length's logarithm; shorter and longer series take the nearest one.
    """
    sizes = sorted(QUANTILES)
    length = math.log(min(max(n, sizes[0]), sizes[-1]))
    logs = [_log_p(statistic, QUANTILES[size]) for size in sizes]
    return max(LEAST_P, math.exp(float(np.interp(length, np.log(sizes), logs))))


def _log_p(statistic: float, quantiles: Sequence[float]) -> float:
    least = math.log(LEAST_P)
    if math.isinf(statistic):
        return least
    logs = [0.0, *map(math.log, TAILS)]
    known = [0.0, *quantiles]
    if statistic <= known[-1]:
        return float(np.interp(statistic, known, logs))
    slope = (logs[-1] - logs[-3]) / (known[-1] - known[-3])
    return max(least, logs[-1] + slope * (statistic - known[-1]))


def benjamini_hochberg(p: Sequence[float]) -> list[float]:
    """q-values in the order of `p`: the least false-discovery rate at which each would be kept."""
    order = np.argsort(p, kind="stable")
    scaled = np.asarray(p, dtype=np.float64)[order] * len(p) / np.arange(1, len(p) + 1)
    kept = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    values = np.empty(len(p))
    values[order] = kept
    return [float(value) for value in values]
