"""Means, rates, wraps and resets against closed forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tfscale.suite.monitors import align
from tfscale.suite.monitors.base import Column
from tfscale.suite.monitors.series import Series

S = 1_000_000_000


def ns(*seconds: float) -> np.ndarray:
    return np.array([round(s * 1e9) for s in seconds], dtype=np.int64)


def test_a_gauge_is_weighted_by_time_not_by_samples() -> None:
    # 0 until 1 s, a straight rise to 10 at 2 s, then 10: many samples in the first second change nothing.
    t = ns(0, 0.1, 0.2, 0.3, 1, 2, 3)
    v = np.array([0, 0, 0, 0, 0, 10, 10.0])
    assert_allclose(align.gauge_means(t, v, ns(0, 1, 2, 3)), [0, 5, 10])
    assert_allclose(align.gauge_means(t, v, ns(0, 3)), [5.0])
    assert_allclose(align.gauge_means(t, v, ns(1.25, 1.75)), [5.0])  # between two samples
    assert_allclose(align.gauge_means(t, v, ns(1, 1.5)), [2.5])


def test_any_straight_line_has_the_mean_of_its_middle() -> None:
    rng = np.random.default_rng(1)
    t = np.unique(rng.integers(0, 10 * S, 200))
    v = 3.0 + 2.0 * t / 1e9
    boundaries = np.linspace(t[0], t[-1], 17).astype(np.int64)
    middles = (boundaries[1:] + boundaries[:-1]) / 2e9
    assert_allclose(align.gauge_means(t, v, boundaries), 3.0 + 2.0 * middles, rtol=1e-9)


def test_stamps_of_a_long_uptime_keep_their_nanoseconds() -> None:
    start = 400 * 86400 * S
    t = start + ns(0, 0.001, 0.002)
    assert_allclose(align.counter_rates(t, np.array([0, 1.0, 2.0]), start + ns(0.0005, 0.0015)), [1000.0], rtol=1e-9)


def test_outside_the_samples_is_unknown() -> None:
    t, v = ns(1, 2, 3), np.array([1.0, 1, 1])
    assert np.isnan(align.gauge_means(t, v, ns(0, 2, 3, 4))).tolist() == [True, False, True]
    assert np.isnan(align.counter_rates(t, v, ns(0, 2, 3, 4))).tolist() == [True, False, True]
    assert np.isnan(align.gauge_means(ns(), np.empty(0), ns(0, 1))).all()
    assert np.isnan(align.counter_rates(ns(), np.empty(0), ns(0, 1))).all()
    assert np.isnan(align.gauge_means(ns(1), np.ones(1), ns(0, 1, 2))).all()


@pytest.mark.parametrize("wraps_at", [2.0**32, 2.0**34, 262143.328850])
def test_a_wrapped_counter_goes_on(wraps_at: float) -> None:
    truth = np.arange(40) * wraps_at * 0.3  # twelve times around
    assert_allclose(align.unwrap(truth % wraps_at, wraps_at), truth, atol=wraps_at * 1e-9)


@pytest.mark.parametrize(
    "values",
    [
        [1000.0, 2000.0, 5.0, 10.0],  # far from its end: not a wrap
        [2.0**32 - 10, 2.0**32 + 5, 3.0],  # went beyond: 64 bits, so it did not wrap
        [2.0**31, 1.0],  # exactly half
    ],
)
def test_a_reset_is_not_taken_for_a_wrap(values: list[float]) -> None:
    found = align.unwrap(np.array(values), 2.0**32)
    assert found.tolist() == values
    reset = align.first_reset(ns(*range(len(values))), found)
    assert reset is not None and reset.after == values[reset.t_ns // S]


def series(kind: str, values: list[float]) -> Series:
    column = Column("c", "B", kind)  # type: ignore[arg-type]
    return Series((column,), ns(*range(len(values))), np.array([values]).T)


def test_blocks_of_a_counter_have_rates_until_it_is_reset() -> None:
    found = align.block_means(series("counter", [0, 100, 300, 7, 9]), 0, ns(0, 1, 2, 3, 4))
    assert_allclose(found, [100, 200, np.nan, np.nan])
    wrapped = align.block_means(series("counter", [2**32 - 50, 50, 150]), 0, ns(0, 0.5, 2))
    assert_allclose(wrapped, [100, 100])


def test_blocks_of_a_gauge_skip_what_could_not_be_read() -> None:
    found = align.block_means(series("gauge", [0, np.nan, 4, 4]), 0, ns(0, 1, 2, 3))
    assert_allclose(found, [1, 3, 4])
