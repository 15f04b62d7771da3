"""Latency and inverse bandwidth of a link from timed collectives: weighted least squares, non-negative, with intervals.

Errors are taken as relative to the time: in seconds, a few large sizes would decide everything, and latency would be
noise. The weights are the fitted times, not the measured ones, which would favour whatever came out too short.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.analysis.communication import BYTES, MESSAGES, Link
from tfscale.suite.record import Quantity
from tfscale.suite.timing.statistics import t_quantile

Floats = NDArray[np.float64]
METHOD = "least squares of relative errors, Student t"
_ROUNDS = 50
_SETTLED = 1e-8


@dataclass(frozen=True)
class Point:
    """A collective of `size` bytes took `seconds`."""

    size: float
    seconds: float


@dataclass(frozen=True, eq=False)
class LinkFit:
    """A link as one kind of collective over `ranks` ranks shows it."""

    link: Link
    kind: str
    ranks: int
    latency_ci95: tuple[float, float]
    per_byte_ci95: tuple[float, float]
    misfit: float
    """Root mean square of the relative errors: far beyond the noise of the points, one straight line is not the law."""
    n: int
    covariance: Floats
    """Of (latency_s, seconds_per_byte), (2, 2)."""

    def predict(self, size: float, ranks: int | None = None, kind: str | None = None) -> Quantity:
        """Mean seconds of a collective of `size` bytes, also of another kind or number of ranks over the same link."""
        ranks, kind = ranks or self.ranks, kind or self.kind
        terms = _terms(kind, ranks, np.array([size]))[0]
        value = float(terms @ np.array([self.link.latency_s, self.link.seconds_per_byte]))
        half = t_quantile(self.n - 2) * float(np.sqrt(terms @ self.covariance @ terms))
        interval = (max(0.0, value - half), value + half)
        return Quantity(
            value=value,
            unit="s",
            kind="derived",
            statistic="predicted mean",
            n_samples=self.n,
            ci95=interval,
            ci_method=METHOD,
        )


def fit(points: Sequence[Point], kind: str, ranks: int) -> LinkFit:
    """The link that explains `points`. Raises ValueError for fewer than 3 points, one size only, or times not above 0."""
    sizes = np.array([point.size for point in points], dtype=np.float64)
    times = np.array([point.seconds for point in points], dtype=np.float64)
    if times.size < 3 or np.unique(sizes).size < 2:
        raise ValueError(f"a link needs 3 points of 2 sizes, got {times.size} of {np.unique(sizes).size}")
    if not (times > 0).all() or ranks < 2:
        raise ValueError("a link needs times above 0 and 2 ranks or more")
    terms = _terms(kind, ranks, sizes)
    free, weights = _settle(terms, times)
    value = free if (free >= 0).all() else _bounded(terms / weights[:, None], times / weights)
    weighted = terms / weights[:, None]
    freedom = times.size - 2
    # The spread of the free solution: at a bound, errors would all be to one side.
    errors = times / weights - weighted @ free
    covariance = _inverse(weighted) * float(errors @ errors) / freedom
    halves = t_quantile(freedom) * np.sqrt(np.diag(covariance))
    intervals = [
        (max(0.0, min(float(f - h), float(v))), max(float(f + h), float(v)))
        for f, h, v in zip(free, halves, value, strict=True)
    ]
    return LinkFit(
        link=Link(float(value[0]), float(value[1])),
        kind=kind,
        ranks=ranks,
        latency_ci95=intervals[0],
        per_byte_ci95=intervals[1],
        misfit=float(np.sqrt(np.mean((times / (terms @ value) - 1) ** 2))),
        n=times.size,
        covariance=covariance,
    )


def _terms(kind: str, ranks: int, sizes: Floats) -> Floats:
    """What latency and seconds per byte are multiplied with, (n, 2)."""
    return np.stack([np.full(sizes.shape, MESSAGES[kind](ranks)), BYTES[kind](ranks) * sizes], axis=1)


def _settle(terms: Floats, times: Floats) -> tuple[Floats, Floats]:
    """The solution without bounds, and the weights it belongs to: times as fitted, found round by round."""
    weights = times
    solution = _solve(terms / weights[:, None], times / weights)
    for _ in range(_ROUNDS):
        # A line that dips below the axis has no relative errors there; the measured time stands in.
        fitted = terms @ solution
        weights = np.where(fitted > 0.01 * times, fitted, times)
        before, solution = solution, _solve(terms / weights[:, None], times / weights)
        if np.allclose(solution, before, rtol=_SETTLED, atol=0.0):
            break
    return solution, weights


def _solve(terms: Floats, values: Floats) -> Floats:
    scale = np.sqrt((terms**2).sum(axis=0))
    return np.asarray(np.linalg.lstsq(terms / scale, values, rcond=None)[0] / scale, dtype=np.float64)


def _bounded(terms: Floats, values: Floats) -> Floats:
    """The better of the two solutions with one coefficient at 0, none of them negative."""
    best, least = np.zeros(2), np.inf
    for place in (0, 1):
        column = terms[:, place]
        candidate = np.zeros(2)
        candidate[place] = max(0.0, float(column @ values) / float(column @ column))
        error = float(((terms @ candidate - values) ** 2).sum())
        if error < least:
            best, least = candidate, error
    return best


def _inverse(terms: Floats) -> Floats:
    scale = np.sqrt((terms**2).sum(axis=0))
    scaled = terms / scale
    return np.asarray(np.linalg.inv(scaled.T @ scaled) / np.outer(scale, scale), dtype=np.float64)
