"""Samples against time: means of gauges, growth of counters, over a window and over each block of steps."""

from dataclasses import dataclass

import numpy as np

from tfscale.suite.monitors.base import Column
from tfscale.suite.monitors.series import Floats, Nanoseconds, Series


@dataclass(frozen=True)
class Reset:
    """A counter that went backwards and did not wrap."""

    t_ns: int
    before: float
    after: float


def unwrap(values: Floats, wraps_at: float) -> Floats:
    """A counter (n,) without its wraps: as if it had gone on.

    Where no value ever reached `wraps_at` and the counter fell by more than half of it, it began again from 0. A
    smaller fall is a reset and stays (`first_reset` finds it), as does every fall of one that went beyond `wraps_at`.
    The half is the convention of sequence numbers: it is right if less than that is counted between two samples.
    """
    if values.size == 0 or float(values.max()) >= wraps_at:
        return values
    falls = np.diff(values, prepend=values[0]) < -wraps_at / 2
    return np.asarray(values + wraps_at * np.cumsum(falls), dtype=np.float64)


def first_reset(t_ns: Nanoseconds, values: Floats) -> Reset | None:
    """The first fall of an unwrapped counter."""
    falls = np.flatnonzero(np.diff(values) < 0)
    if falls.size == 0:
        return None
    at = int(falls[0])
    return Reset(int(t_ns[at + 1]), float(values[at]), float(values[at + 1]))


def gauge_means(t_ns: Nanoseconds, values: Floats, boundaries_ns: Nanoseconds) -> Floats:
    """Time-weighted mean of a gauge between each two boundaries (b + 1,): (b,), straight lines between samples.

    NaN where a part is not wholly between the first and the last sample.
    """
    return _slopes(boundaries_ns, _integral(t_ns, values, boundaries_ns))


def counter_rates(t_ns: Nanoseconds, values: Floats, boundaries_ns: Nanoseconds) -> Floats:
    """Growth per second of an unwrapped counter between each two boundaries (b + 1,): (b,), NaN as above."""
    if values.size == 0:
        return np.full(boundaries_ns.size - 1, np.nan)
    at = _seconds(boundaries_ns, t_ns)
    grown = np.interp(at, _seconds(t_ns, t_ns), values - values[0], left=np.nan, right=np.nan)
    return _slopes(boundaries_ns, np.asarray(grown, dtype=np.float64))


def block_means(series: Series, column: int, boundaries_ns: Nanoseconds) -> Floats:
    """One value a block, for a chart under the step axis: a gauge's mean, a counter's growth per second.

    `boundaries_ns` (b + 1,): the start of the first block, then the end of each. NaN where a block has no samples
    around it, and for every block from a reset on.
    """
    t_ns, values = series.of(column)
    described: Column = series.columns[column]
    if described.kind == "gauge":
        return gauge_means(t_ns, values, boundaries_ns)
    values = unwrap(values, described.wraps_at)
    if reset := first_reset(t_ns, values):
        before = t_ns < reset.t_ns
        t_ns, values = t_ns[before], values[before]
    return counter_rates(t_ns, values, boundaries_ns)


def _integral(t_ns: Nanoseconds, values: Floats, at_ns: Nanoseconds) -> Floats:
    """Integral of straight lines between samples, from the first sample to each of `at_ns`; NaN outside."""
    if values.size == 0:
        return np.full(at_ns.size, np.nan)
    if values.size == 1:
        return np.where(at_ns == t_ns[0], 0.0, np.nan)
    times, at = _seconds(t_ns, t_ns), _seconds(at_ns, t_ns)
    widths = np.diff(times)
    areas = np.concatenate([[0.0], np.cumsum(widths * (values[1:] + values[:-1]) / 2)])
    piece = np.clip(np.searchsorted(times, at, side="right") - 1, 0, widths.size - 1)
    into = at - times[piece]
    slope = (values[piece + 1] - values[piece]) / widths[piece]
    inside = (at_ns >= t_ns[0]) & (at_ns <= t_ns[-1])
    return np.where(inside, areas[piece] + into * values[piece] + slope * into**2 / 2, np.nan)


def _slopes(boundaries_ns: Nanoseconds, totals: Floats) -> Floats:
    return np.asarray(np.diff(totals) / (np.diff(boundaries_ns) / 1e9), dtype=np.float64)


def _seconds(at_ns: Nanoseconds, from_ns: Nanoseconds) -> Floats:
    """Seconds after the first of `from_ns`: the stamps themselves are too large for a float's nanoseconds."""
    return np.asarray((at_ns - from_ns[0]) / 1e9, dtype=np.float64)
