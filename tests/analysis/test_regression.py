import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfscale.suite.analysis import regression
from tfscale.suite.analysis.regression import difference_scale, hampel, segment


def levels(*parts: tuple[int, float], noise: float = 0.0, seed: int = 0) -> np.ndarray:
    values = np.concatenate([np.full(count, level) for count, level in parts])
    return values * (1 + noise * np.random.default_rng(seed).normal(size=values.size))


def starts(values: np.ndarray, **options: float) -> list[int]:
    return [part.start for part in segment(values, **options)]  # type: ignore[arg-type]


def test_exact_levels_are_found_exactly() -> None:
    found = segment(levels((20, 1.0), (30, 1.2), (25, 0.9)))
    assert [(part.start, part.stop) for part in found] == [(0, 20), (20, 50), (50, 75)]
    assert [part.mean for part in found] == pytest.approx([1.0, 1.2, 0.9])
    assert [part.level for part in found] == pytest.approx([1.0, 1.2, 0.9])


def test_the_split_is_the_least_squares_one() -> None:
    """Brute force over all positions of two changes."""
    values = levels((15, 1.0), (12, 1.3), (18, 1.1), noise=0.02, seed=3)
    logs = np.log(values)

    def cost(*edges: int) -> float:
        return sum(float(logs[a:b].var() * (b - a)) for a, b in itertools.pairwise((0, *edges, logs.size)))

    best = min(
        ((a, b) for a, b in itertools.combinations(range(5, 41), 2) if b - a >= 5), key=lambda edges: cost(*edges)
    )
    assert starts(values)[1:] == list(best)


def test_a_rise_that_is_undone_is_found() -> None:
    assert starts(levels((40, 1.0), (12, 1.2), (48, 1.0), noise=0.02)) == [0, 40, 52]


def test_outliers_make_no_segment_but_stay_in_the_mean() -> None:
    values = levels((60, 1.0), noise=0.01)
    values[[10, 30, 59]] = 5.0
    (only,) = segment(values)
    assert only.mean == pytest.approx(values.mean())
    assert only.level == pytest.approx(1.0, abs=0.01)


def test_hampel_finds_what_was_planted() -> None:
    values = levels((60, 1.0), noise=0.01)
    values[[0, 30]] = 2.0
    clean, outliers = hampel(values)
    assert set(np.flatnonzero(outliers)) >= {0, 30}
    assert clean.max() < 1.1


def test_small_changes_are_not_worth_a_segment() -> None:
    values = levels((200, 1.0), (200, 1.01), noise=0.002)
    assert starts(values) == [0]
    assert starts(values, min_effect=0.005) == [0, 200]


def test_segments_are_at_least_min_size() -> None:
    values = levels((30, 1.0), (6, 1.5), (30, 1.0), noise=0.01)
    assert starts(values, min_size=6) == [0, 30, 36]
    assert all(part.stop - part.start >= 10 for part in segment(values, min_size=10))


def test_autocorrelation_is_not_taken_for_levels() -> None:
    rng, rho, count = np.random.default_rng(1), 0.7, 120
    alarms = 0
    for _ in range(200):
        values = np.zeros(count)
        for i, noise in enumerate(rng.normal(size=count)):
            values[i] = rho * values[i - 1] + noise * np.sqrt(1 - rho**2)
        alarms += len(segment(1 + 0.03 * values)) > 1
    assert alarms <= 10


def test_power_on_a_five_percent_step() -> None:
    """Step of 1.7 noise standard deviations in the middle of 60 white values: found nearly always, nearly in place."""
    found = [starts(levels((30, 1.0), (30, 1.05), noise=0.03, seed=seed)) for seed in range(100)]
    assert sum(len(s) == 2 and abs(s[1] - 30) <= 5 for s in found) >= 85


def test_values_that_are_not_positive_are_split_without_logarithms() -> None:
    assert starts(levels((20, -1.0), (20, 2.0), noise=0.05)) == [0, 20]
    assert starts(np.append(np.zeros(20), np.ones(20))) == [0, 20]


def test_a_long_series_is_searched_coarsely_and_refined() -> None:
    values = levels((1234, 1.0), (3777, 1.1), noise=0.01)
    assert starts(values)[1] == pytest.approx(1234, abs=1)


@pytest.mark.parametrize("count", [1, 2, 4, 9])
def test_short_series_are_one_segment(count: int) -> None:
    (only,) = segment(np.arange(1.0, count + 1))
    assert (only.start, only.stop, only.mean) == (0, count, pytest.approx((count + 1) / 2))


@pytest.mark.parametrize("wrong", [[], [[1.0, 2.0]], [1.0, np.nan], [1.0, np.inf]])
def test_unusable_series_are_refused(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        segment(wrong)


def test_difference_scale_is_blind_to_levels() -> None:
    assert difference_scale(levels((2000, 1.0), (2000, 3.0)) + np.random.default_rng(0).normal(0, 0.1, 4000)) == (
        pytest.approx(0.1, rel=0.05)
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.floats(1e-3, 1e3))
def test_segments_tile_and_do_not_depend_on_the_unit(values: list[float], unit: float) -> None:
    found = segment(values)
    assert [found[0].start, found[-1].stop] == [0, len(values)]
    assert all(a.stop == b.start for a, b in itertools.pairwise(found))
    assert sum(part.mean * (part.stop - part.start) for part in found) == pytest.approx(sum(values), abs=1e-3)
    if min(values) > 1e-3:
        assert [part.start for part in segment([value * unit for value in values])] == [part.start for part in found]


def test_a_small_step_is_placed_where_most_of_its_probability_lies() -> None:
    """Against a sum over all places by hand, and better than the best fit on steps of one standard deviation."""
    near, closer, further = 5, 0, 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        true = int(rng.integers(15, 46))
        values = rng.standard_normal(60) + (np.arange(60) >= true)
        costs = {k: values[:k].var() * k + values[k:].var() * (60 - k) for k in range(3, 58)}
        weights = {k: math.exp(-(cost - min(costs.values())) / 2) for k, cost in costs.items()}
        mass = {k: sum(w for j, w in weights.items() if abs(j - k) <= near) for k in weights}
        placed = regression.likely_split(values, 1.0, 3, near)
        assert mass[placed] >= 0.999 * max(mass.values())
        closer += abs(placed - true) <= near
        further += abs(min(costs, key=costs.__getitem__) - true) <= near
    assert closer > further


def test_a_clear_step_is_placed_exactly() -> None:
    values = np.random.default_rng(1).standard_normal(60) + 8.0 * (np.arange(60) >= 50)
    assert regression.likely_split(values, 1.0, 3, 5) == 50


@pytest.mark.parametrize("freedom", [10, 18, 40, 200])
@pytest.mark.parametrize("z", [1.0, 2.0, 3.0, 4.0])
def test_the_quantile_of_student_is_that_of_scipy(z: float, freedom: int) -> None:
    from scipy import stats

    assert regression.student(z, freedom) == pytest.approx(stats.t.isf(stats.norm.sf(z), freedom), rel=0.02)
    assert regression.student(z, 0) == float("inf")
