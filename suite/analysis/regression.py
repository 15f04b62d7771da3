"""Change points of a noisy, autocorrelated series: where it moves to another level and stays there. numpy only."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from tfscale.suite.timing.autocorrelation import CAUTION, ar1_long_run_variance

Series = NDArray[np.float64]

_LOOK_AHEAD = 2
"""Changes tried at once: a rise that is undone again shows only when both of its edges are placed together."""
_GRID = 400
"""Most candidate positions of the exact search; longer series are searched on a coarser grid, then refined."""
_AS_GOOD = 0.001
"""Places whose probabilities of being near differ by less are as good; the likeliest of them is taken."""


@dataclass(frozen=True)
class Segment:
    """One level: values [start, stop). `mean` is the plain mean, `level` the mean without outliers."""

    start: int
    stop: int
    mean: float
    level: float


def segment(
    values: ArrayLike,
    *,
    min_size: int = 5,
    min_effect: float = 0.02,
    threshold: float = 4.0,
    outlier: float = 4.0,
    caution: float = CAUTION,
    near: int = 0,
    pair: float = 1.5,
) -> list[Segment]:
    """Split `values` (n,) into the fewest levels that explain it. The segments tile [0, n); one segment: no change.

    Least squares over all positions by dynamic programming (segment neighbourhood, Auger and Lawrence 1989). A change
    is added while it lowers the residual sum of squares by `threshold`^2 long-run variances (z = 4: about 6e-5 for
    one position, well under 5 % after the search; as Student's quantile, larger where the series is short). The
    long-run variance comes from the residuals of the richer fit, so that neither levels nor autocorrelation are taken
    for one another (sup F(k+1 | k), Bai and Perron 1998). Outliers are set to the local median first (Hampel) and
    cannot make a level; a level has at least `min_size` values and differs from its neighbours by at least the
    fraction `min_effect`.

    `outlier`: cut of the Hampel filter, in robust standard deviations. `caution`: standard errors by which the
    autocorrelation is raised. `pair`: how much more two changes at once must gain than each alone, lest short
    autocorrelated series are overfitted. `near`: each change is moved to where it most likely is to within so many
    points, which for a small step is not where the fit is best; 0 keeps the fit.
    All-positive series are split in logarithms, where noise that scales with the level is even.

    Raises ValueError for a series that is not one-dimensional, is empty, or has values that are not finite.
    """
    raw = np.asarray(values, dtype=np.float64)
    if raw.ndim != 1 or raw.size == 0 or not np.all(np.isfinite(raw)):
        raise ValueError("segmentation needs a one-dimensional, non-empty series of finite values")
    positive = bool(np.all(raw > 0))
    clean, _ = hampel(np.log(raw) if positive else raw, cut=outlier)
    stride = math.ceil(raw.size / _GRID)
    edges = _fewest_changes(_Search(clean, min_size, stride, caution), threshold, pair)
    edges = _without_small(clean, _refine(clean, edges, stride, min_size), min_effect, positive)
    if near:
        edges = _placed(clean, edges, min_size, caution, near)
    levels = [float(clean[a:b].mean()) for a, b in pairwise(edges)]
    return [
        Segment(a, b, float(raw[a:b].mean()), math.exp(level) if positive else level)
        for (a, b), level in zip(pairwise(edges), levels, strict=True)
    ]


def hampel(values: Series, half_window: int = 3, cut: float = 4.0) -> tuple[Series, NDArray[np.bool_]]:
    """`values` (n,) with outliers replaced by the median of their window, and which they were (Hampel 1974).

    An outlier is more than `cut` robust standard deviations (window MAD, at least that of all first differences, so
    that a quiet window does not condemn ordinary noise) from the median of 2 `half_window` + 1 values.
    """
    if values.size <= half_window:
        return values, np.zeros(values.size, dtype=np.bool_)
    windows = sliding_window_view(np.pad(values, half_window, mode="reflect"), 2 * half_window + 1)
    medians = np.median(windows, axis=1)
    scales = 1.4826 * np.median(np.abs(windows - medians[:, None]), axis=1)
    # Rounding noise of a constant series is no outlier.
    floor = max(difference_scale(values), 1e-12 * float(np.abs(values).max()))
    outliers = np.abs(values - medians) > cut * np.maximum(scales, floor)
    return np.where(outliers, medians, values), np.asarray(outliers, dtype=np.bool_)


def difference_scale(values: Series) -> float:
    """Standard deviation of the noise in `values` (n >= 2,), blind to levels: MAD of first differences / sqrt(2)."""
    return float(1.4826 * np.median(np.abs(np.diff(values))) / math.sqrt(2))


class _Search:
    """Best edges for every number of changes, found as they are asked for. Cost: residual sum of squares."""

    def __init__(self, values: Series, min_size: int, stride: int, caution: float) -> None:
        self.values, self.min_size, self.caution = values, min_size, caution
        self._grid = np.append(np.arange(0, values.size, stride), values.size)
        centred = values - values.mean()
        sums, squares = (np.append(0.0, np.cumsum(part))[self._grid] for part in (centred, centred**2))
        lengths = self._grid[None, :] - self._grid[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = squares[None, :] - squares[:, None] - (sums[None, :] - sums[:, None]) ** 2 / lengths
        # A series too short for one level of min_size is one level all the same.
        self._cost = np.where(lengths >= min(min_size, values.size), cost, np.inf)
        self._best = [self._cost[0]]
        self._back: list[NDArray[np.intp]] = []

    def residual(self, changes: int) -> float:
        """Residual sum of squares with `changes` changes; infinite where they do not fit in."""
        while len(self._best) <= changes:
            totals = self._best[-1][:, None] + self._cost
            self._back.append(totals.argmin(axis=0))
            self._best.append(totals.min(axis=0))
        return float(self._best[changes][-1])

    def edges(self, changes: int) -> list[int]:
        """[0, change, ..., n] of the best fit with `changes` changes."""
        self.residual(changes)
        places = [self._grid.size - 1]
        for back in reversed(self._back[:changes]):
            places.append(int(back[places[-1]]))
        return [0, *(int(self._grid[place]) for place in reversed(places))]


def _fewest_changes(search: _Search, threshold: float, pair: float) -> list[int]:
    """Edges of the smallest number of changes that no larger one (up to _LOOK_AHEAD more) beats significantly."""
    changes = 0
    tried = range(1, _LOOK_AHEAD + 1)
    while added := next((more for more in tried if _worth(search, changes, more, threshold, pair)), 0):
        changes += added
    return search.edges(changes)


def _worth(search: _Search, changes: int, more: int, threshold: float, pair: float) -> bool:
    """Whether `more` changes on top of `changes` lower the residual sum of squares by more than noise would."""
    richer = search.residual(changes + more)
    if not math.isfinite(richer):
        return False
    noise = _residual_long_run_variance(search.values, search.edges(changes + more), search.caution)
    freedom = search.values.size - 2 * (changes + more + 1)
    each = student(threshold, freedom) ** 2 * (1.0 if more == 1 else pair)
    # What rounding leaves of a series without noise is not worth a change.
    return search.residual(changes) - richer > more * each * noise + 1e-9 * search.residual(0)


def student(z: float, freedom: float) -> float:
    """Student's quantile at the tail probability of the normal quantile `z`, for `freedom` degrees of freedom.

    The series of Fisher and Cornish (1960), Abramowitz and Stegun 26.7.5, to the third order: within 2 % for z up to 4
    and 10 degrees. The noise that a short series shows is itself uncertain. Infinite where there is no freedom.
    """
    if freedom <= 0:
        return math.inf
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _residual_long_run_variance(values: Series, edges: Sequence[int], caution: float) -> float:
    """Long-run variance of what is left after a straight line is taken off each segment of `values` (n,).

    A line, not the mean: on a ramp the means leave a slope in the residuals that looks like strong autocorrelation,
    and a steep drift would pass for noise.
    """
    left = np.concatenate([_detrended(values[a:b]) for a, b in pairwise(edges)])
    return ar1_long_run_variance(left, left.size / (len(edges) - 1), coefficients=2, caution=caution)


def _detrended(values: Series) -> Series:
    """`values` (n,) without their least-squares line."""
    time = np.arange(values.size) - (values.size - 1) / 2
    centred = values - values.mean()
    return np.asarray(centred - time * (time @ centred) / max(float(time @ time), 1.0), dtype=np.float64)


def _refine(values: Series, edges: list[int], stride: int, min_size: int) -> list[int]:
    """Move each change to the best position within `stride` of its place on the coarse grid."""
    edges = list(edges)
    for k in range(1, len(edges) - 1) if stride > 1 else ():
        before, after = edges[k - 1], edges[k + 1]
        places = range(max(edges[k] - stride, before + min_size), min(edges[k] + stride, after - min_size) + 1)
        if places:
            edges[k] = min(places, key=lambda p: _deviation(values[before:p]) + _deviation(values[p:after]))
    return edges


def _placed(values: Series, edges: list[int], min_size: int, caution: float, near: int) -> list[int]:
    """Each change moved to the place within `near` points of which it lies with the greatest probability.

    The likelihood of a place is Gaussian in the gain of splitting its neighbourhood there; for a step of one standard
    deviation it has several peaks, and the highest alone is often further off.
    """
    edges = list(edges)
    noise = _residual_long_run_variance(values, edges, caution) if len(edges) > 2 else 0.0
    for k in range(1, len(edges) - 1) if noise > 0 else ():
        edges[k] = edges[k - 1] + likely_split(values[edges[k - 1] : edges[k + 1]], noise, min_size, near)
    return edges


def likely_split(values: Series, noise: float, min_size: int, near: int) -> int:
    """Index of the first value of the second level of `values` (n,), which hold two: the one within `near` of which
    the true one lies with the greatest probability; among equals the one that is likeliest itself.

    Every split that leaves `min_size` values on each side is equally likely beforehand; `noise` > 0 is the long-run
    variance about the levels.
    """
    count = values.size
    sizes = np.arange(min_size, count - min_size + 1)
    sums = np.cumsum(values - values.mean())[sizes - 1]
    gains = sums**2 * (1 / sizes + 1 / (count - sizes))
    weights = np.exp((gains - gains.max()) / (2 * noise))
    totals = np.append(0.0, np.cumsum(weights))
    places = np.arange(sizes.size)
    mass = totals[np.minimum(places + near + 1, sizes.size)] - totals[np.maximum(places - near, 0)]
    best = np.flatnonzero(mass >= mass.max() * (1 - _AS_GOOD))
    return int(sizes[best[int(np.argmax(weights[best]))]])


def _deviation(values: Series) -> float:
    """Sum of squared deviations from the mean."""
    return float(values.var() * values.size)


def _without_small(values: Series, edges: list[int], min_effect: float, logs: bool) -> list[int]:
    """Undo changes smaller than `min_effect`, the smallest first, because the joined level has a mean of its own."""
    edges = list(edges)
    while len(edges) > 2:
        means = [float(values[a:b].mean()) for a, b in pairwise(edges)]
        effects = [_effect(a, b, logs) for a, b in pairwise(means)]
        smallest = int(np.argmin(effects))
        if effects[smallest] >= min_effect:
            break
        del edges[smallest + 1]
    return edges


def _effect(before: float, after: float, logs: bool) -> float:
    """Relative change between two levels, the same up as down: |ln ratio| as a fraction of the lower one."""
    if logs:
        return math.expm1(abs(after - before))
    lower = min(abs(before), abs(after))
    return abs(after - before) / lower if lower > 0 else math.inf
