"""The gate's own false alarms, counted on pairs that do the same work."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).parent))
import histories as made

from tfscale.suite.nightly import canary as canaries
from tfscale.suite.nightly import gate, reading
from tfscale.suite.nightly.series import series_of


def pair(path: Path, ratio: float = 1.0, nights: int = 30) -> None:
    """Two cases that differ in their seed, and one that differs in more."""
    made.CASES["twin"] = made.CASES[made.BERT].with_values(seed=1)
    made.CASES["other"] = made.CASES[made.BERT].with_values(seed=2, precision="mixed_bfloat16")
    made.steady(made.Results(path), {made.BERT: 100, "twin": 100 * ratio, "other": 130}, nights)


def test_cases_that_differ_in_seed_alone_are_a_pair(tmp_path: Path) -> None:
    pair(tmp_path, nights=2)
    [(one, other)] = canaries.pairs(series_of(reading.read(tmp_path)))
    assert {one.case_id, other.case_id} == {made.case_id(made.BERT), made.case_id("twin")}


def test_an_honest_pair_is_quiet_and_its_rate_has_an_interval(tmp_path: Path) -> None:
    pair(tmp_path)
    told = gate.answer(tmp_path, gate.Options(canary=True)).gate.canary
    assert told is not None and (told.pairs, told.nights, told.series_nights) == (1, 30, 11)
    assert told.false_alarms == 0 and told.false_alarm_ci95 is not None
    assert told.false_alarm_ci95 == pytest.approx((0.0, 1 - 0.025 ** (1 / 11)))


def test_a_pair_that_differs_is_found_out(tmp_path: Path) -> None:
    pair(tmp_path, ratio=0.9)
    told = gate.answer(tmp_path, gate.Options(canary=True)).gate.canary
    assert told is not None and told.differing == told.nights


def test_a_step_in_a_pair_is_one_false_alarm() -> None:
    logs = np.random.default_rng(3).normal(0, 0.005, 50)
    logs[35:] += 0.05
    count = canaries.replay(logs.tolist(), 0.02)
    assert (count.nights, count.alarms) == (31, 1) and 36 <= count.at[0] <= 42


def test_without_a_pair_the_reason_is_given(tmp_path: Path) -> None:
    made.steady(made.Results(tmp_path), {made.BERT: 100}, 3)
    told = gate.answer(tmp_path, gate.Options(canary=True)).gate.canary
    assert told is not None and told.pairs == 0 and "seed: 1" in (told.reason or "")


@pytest.mark.parametrize(("events", "trials"), [(0, 10), (3, 40), (10, 10)])
def test_the_interval_is_clopper_and_pearsons(events: int, trials: int) -> None:
    exact = stats.binomtest(events, trials).proportion_ci(method="exact")
    assert canaries.interval(events, trials) == pytest.approx((exact.low, exact.high))
    assert canaries.interval(0, 0) is None
