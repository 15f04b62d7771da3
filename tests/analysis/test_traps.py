"""Series that have fooled change-point tools, each with its one right answer."""

import math

import numpy as np
import pytest

from tfscale.suite.analysis.judging import FEWEST, Night, judge


def noisy(levels: dict[int, float], n: int, seed: int = 0, cv: float = 0.01) -> list[Night]:
    """`n` nights; `levels`: from night k on."""
    level = np.empty(n)
    for begin, value in levels.items():
        level[begin:] = value
    return (level * (1 + cv * np.random.default_rng(seed).standard_normal(n))).tolist()


def test_a_single_spike_is_an_outlier_and_no_change() -> None:
    values = noisy({0: 100}, 60)
    values[30] = 180.0
    found = judge(values)
    assert (found.verdict, found.changes, found.outliers) == ("unchanged", (), (30,))


def test_a_spike_last_night_waits_for_the_next() -> None:
    values = noisy({0: 100}, 60)
    values[-1] = 140.0
    found = judge(values)
    assert found.verdict == "suspicious" and found.outliers == (59,)


def test_a_step_is_told_with_its_place_and_size() -> None:
    found = judge(noisy({0: 100, 50: 105}, 60))
    assert found.verdict == "changed"
    (change,) = found.changes
    assert abs(change.index - 50) <= 1 and change.ratio == pytest.approx(1.05, abs=0.01) and change.p < 1e-6


def test_an_old_step_is_listed_and_alarms_nobody() -> None:
    found = judge(noisy({0: 100, 30: 105}, 90))
    assert found.verdict == "unchanged" and len(found.changes) == 1


@pytest.mark.parametrize("value", [0.0, 5.0, -3.0])
def test_a_constant_series(value: float) -> None:
    found = judge([value] * 40)
    assert (found.verdict, found.changes, found.outliers) == ("unchanged", (), ())
    assert found.level == pytest.approx(value, rel=1e-12)


def test_missing_nights_keep_their_places() -> None:
    values = noisy({0: 100, 40: 110}, 60)
    for night in (3, 17, 18, 41, 55):
        values[night] = None if night % 2 else math.nan
    found = judge(values)
    assert found.verdict == "changed" and found.n == 55 and abs(found.changes[0].index - 40) <= 2
    values[-1] = None
    assert judge(values).verdict == "missing"
    assert judge([None] * 30).verdict == "missing"


def test_three_points_say_nothing() -> None:
    assert judge([1.0, 2.0, 3.0]).verdict == "not_enough_data"
    assert judge(noisy({0: 1}, FEWEST - 1)).verdict == "not_enough_data"


def test_zeros_and_negatives_have_levels_too() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(0, 0.1, 40), rng.normal(-2, 0.1, 15)]).tolist()
    found = judge(values)
    assert found.verdict == "changed" and abs(found.changes[0].index - 40) <= 1
    assert found.changes[0].ratio is None or found.changes[0].ratio < 0 or found.changes[0].before != 0


def test_a_slow_drift_is_no_step() -> None:
    rng = np.random.default_rng(2)
    values = (100 * (1 + 0.002 * np.arange(100)) * (1 + 0.005 * rng.standard_normal(100))).tolist()
    assert judge(values).verdict == "drifting"


def test_two_far_modes_are_unstable() -> None:
    """A lottery of hosts: nearly every second night on the slow one."""
    rng = np.random.default_rng(3)
    values = np.where(rng.random(80) < 0.5, 100.0, 130.0) * (1 + 0.01 * rng.standard_normal(80))
    assert judge(values.tolist()).verdict == "unstable"


def test_two_steps_close_together_are_both_told() -> None:
    found = judge(noisy({0: 100, 40: 112, 50: 104}, 70, seed=5))
    assert [round(change.index, -1) for change in found.changes] == [40, 50]


def test_five_thousand_points() -> None:
    found = judge(noisy({0: 100, 4990: 106}, 5000, seed=6))
    assert found.verdict == "changed" and abs(found.changes[-1].index - 4990) <= 3 and len(found.changes) == 1


def test_replicates_of_a_night_are_one_night() -> None:
    rng = np.random.default_rng(7)
    nights = [list(level * (1 + 0.01 * rng.standard_normal(3))) for level in [100.0] * 30 + [106.0] * 10]
    nights[12][0] = 400.0  # one odd launch of three
    found = judge(nights)
    assert found.verdict == "changed" and abs(found.changes[0].index - 30) <= 1 and 12 not in found.outliers


def test_infinity_is_refused() -> None:
    with pytest.raises(ValueError, match="point 2 is infinite"):
        judge([1.0, 2.0, math.inf])
