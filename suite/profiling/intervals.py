"""Interval algebra on integer picoseconds: sort, running maximum, sweep; no loop over intervals.

`Spans` are sorted, disjoint, not touching and not empty. Everything here is pure and exact (int64).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]


class Spans(NamedTuple):
    """Half-open intervals [start, end), sorted and disjoint; both arrays int64 of shape (n,)."""

    start: Ints
    end: Ints

    @property
    def total(self) -> int:
        return int((self.end - self.start).sum())


EMPTY = Spans(np.empty(0, np.int64), np.empty(0, np.int64))


def union(start: ArrayLike, end: ArrayLike) -> Spans:
    """The union of any intervals [start, end); those of no or negative length are left out."""
    starts, ends = np.asarray(start, np.int64), np.asarray(end, np.int64)
    real = ends > starts
    if not real.all():
        starts, ends = starts[real], ends[real]
    if not starts.size:
        return EMPTY
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    first = np.flatnonzero(np.concatenate(([True], starts[1:] > reach[:-1])))
    last = np.append(first[1:] - 1, starts.size - 1)
    return Spans(starts[first], reach[last])


def united(*several: Spans) -> Spans:
    """The union of sets of intervals."""
    kept = [spans for spans in several if spans.start.size]
    if len(kept) < 2:
        return kept[0] if kept else EMPTY
    return union(np.concatenate([spans.start for spans in kept]), np.concatenate([spans.end for spans in kept]))


def intersection(a: Spans, b: Spans) -> Spans:
    """What lies in both."""
    return _where(a, b, 3)


def difference(a: Spans, b: Spans) -> Spans:
    """What lies in `a` and not in `b`."""
    return a if not b.start.size else _where(a, b, 1)


def clip(spans: Spans, start: int, end: int) -> Spans:
    """What lies in [start, end)."""
    return union(np.clip(spans.start, start, end), np.clip(spans.end, start, end))


def covered(spans: Spans, start: ArrayLike, end: ArrayLike) -> Ints:
    """How much of each window [start, end) is covered: (n,), in picoseconds. Windows may overlap; none is negative."""
    starts, ends = np.asarray(start, np.int64), np.asarray(end, np.int64)
    found: Ints = np.maximum(_before(spans, ends) - _before(spans, starts), 0)
    return found


def _before(spans: Spans, times: Ints) -> Ints:
    """Covered length before each time."""
    if not spans.start.size:
        return np.zeros(times.shape, np.int64)
    lengths = spans.end - spans.start
    done = np.concatenate(([0], np.cumsum(lengths)))
    index = np.searchsorted(spans.start, times, side="right")
    running = np.minimum(times - spans.start[index - 1], lengths[index - 1])
    found: Ints = np.where(index > 0, done[index - 1] + running, 0)
    return found


def _where(a: Spans, b: Spans, state: int) -> Spans:
    """Stretches in state 1 (only in a), 2 (only in b) or 3 (in both)."""
    times = np.concatenate((a.start, a.end, b.start, b.end))
    sizes = (a.start.size, a.end.size, b.start.size, b.end.size)
    weights = np.repeat(np.array((1, -1, 2, -2), np.int64), sizes)
    order = np.argsort(times, kind="stable")
    times, states = times[order], np.cumsum(weights[order])
    chosen = np.flatnonzero(states[:-1] == state) if times.size else np.empty(0, np.int64)
    return union(times[chosen], times[chosen + 1])
