"""Interval algebra against a brute-force raster of every picosecond."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tfscale.suite.profiling import intervals
from tfscale.suite.profiling.intervals import EMPTY, Spans, clip, covered, difference, intersection, union, united

SIZE = 40
pairs = st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)), max_size=12)
Pairs = list[tuple[int, int]]


def raster(of: Pairs) -> set[int]:
    """The picoseconds that any interval covers."""
    return {t for start, end in of for t in range(start, end)}


def spans(of: Pairs) -> Spans:
    return union([start for start, _ in of], [end for _, end in of])


def rastered(of: Spans) -> set[int]:
    """As a raster; and the form that is promised: sorted, disjoint, not touching, not empty."""
    assert (of.end > of.start).all()
    assert (of.start[1:] > of.end[:-1]).all()
    assert of.start.dtype == of.end.dtype == np.int64
    found = raster(list(zip(of.start.tolist(), of.end.tolist(), strict=True)))
    assert of.total == len(found)
    return found


@given(pairs)
def test_union(a: Pairs) -> None:
    assert rastered(spans(a)) == raster(a)


@given(pairs, pairs)
def test_of_two(a: Pairs, b: Pairs) -> None:
    x, y = spans(a), spans(b)
    assert rastered(united(x, y)) == raster(a) | raster(b)
    assert rastered(intersection(x, y)) == raster(a) & raster(b)
    assert rastered(difference(x, y)) == raster(a) - raster(b)


@given(pairs, st.integers(-2, SIZE + 2), st.integers(-2, SIZE + 2))
def test_clip(a: Pairs, low: int, high: int) -> None:
    assert rastered(clip(spans(a), low, high)) == raster(a) & set(range(low, high))


@given(pairs, st.lists(st.tuples(st.integers(-2, SIZE + 2), st.integers(-2, SIZE + 2)), max_size=6))
def test_covered(a: Pairs, windows: Pairs) -> None:
    found = covered(spans(a), [low for low, _ in windows], [high for _, high in windows])
    assert found.tolist() == [len(raster(a) & set(range(low, high))) for low, high in windows]


def test_nothing() -> None:
    assert union([], []) == EMPTY
    assert united() == EMPTY
    assert intersection(EMPTY, spans([(0, 3)])).start.size == 0
    assert difference(EMPTY, spans([(0, 3)])).start.size == 0


def test_far_times_stay_exact() -> None:
    far = 2**61
    found = union([far, far + 5], [far + 3, far + 9])
    assert found.total == 7
    assert intervals.covered(found, [far + 2], [far + 6]).tolist() == [2]
