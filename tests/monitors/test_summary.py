"""The record's part of what was sampled."""

import json

import numpy as np
import pytest

from tfscale.suite.monitors.base import Column
from tfscale.suite.monitors.series import Samples, Series, Window
from tfscale.suite.monitors.summary import FACTS, SPECIAL, counter_quantities, gauge_quantities, summarise
from tfscale.suite.record import Monitored, Quantity

S = 1_000_000_000
WINDOW = Window(10 * S, 20 * S)


def ns(*seconds: float) -> np.ndarray:
    return np.array([round(s * 1e9) for s in seconds], dtype=np.int64)


def test_a_gauge() -> None:
    t = ns(9, 11, 19, 21)
    found = gauge_quantities("power", "W", t, np.array([100.0, 200, 200, 400]), WINDOW)
    # 150 to 200 W in the first second, 200 W for eight, 200 to 300 W in the last.
    assert found["power_mean"].value == pytest.approx((175 + 8 * 200 + 250) / 10)
    assert found["power_max"].value == 200  # 300 at the end is drawn, not sampled
    assert [q.n_samples for q in found.values()] == [2, 2]
    assert {(q.unit, q.kind) for q in found.values()} == {("W", "measured")}
    assert found["power_mean"].statistic == "time-weighted mean"


def test_a_counter_is_interpolated_at_both_ends() -> None:
    found = counter_quantities("tx_bytes", "B", ns(9.5, 10.5, 20.5), np.array([0.0, 1000, 11000]), WINDOW)
    assert found["tx_bytes"].value == pytest.approx(500 + 9500)
    assert found["tx_bytes_rate"].value == pytest.approx(1000)
    assert (found["tx_bytes"].unit, found["tx_bytes_rate"].unit) == ("B", "B/s")
    assert found["tx_bytes"].n_samples == 1


@pytest.mark.parametrize(("unit", "rate"), [("s", "1"), ("J", "W"), ("packets", "packets/s")])
def test_units_of_rates(unit: str, rate: str) -> None:
    assert counter_quantities("c", unit, ns(10, 20), np.array([0.0, 5]), WINDOW)["c_rate"].unit == rate


def test_a_wrap_within_the_window_counts_on() -> None:
    found = counter_quantities("c", "B", ns(9, 15, 21), np.array([2.0**32 - 600, 0, 600]), WINDOW)
    assert found["c"].value == pytest.approx(1000)


def test_a_reset_is_unknown_with_its_place_and_one_outside_the_window_is_not() -> None:
    t = ns(8, 10, 12.5, 20)
    found = counter_quantities("c", "B", t, np.array([5.0, 5000, 7, 70]), WINDOW)
    assert {q.value for q in found.values()} == {None}
    assert found["c"].reason == "the counter was reset 2.5 s into the window, from 5000 to 7"
    before = counter_quantities("c", "B", ns(8, 9, 10, 20), np.array([9e3, 5, 10, 70]), WINDOW)
    assert before["c"].value == 60


def test_what_the_samples_do_not_straddle_is_said_and_not_stretched() -> None:
    t = ns(9, 14, 18)
    counter = counter_quantities("c", "B", t, np.array([0.0, 50, 90]), WINDOW)
    assert counter["c"].value is None
    assert counter["c"].reason == "of the timed window (10.00 s), its last 2.00 s have no samples"
    assert counter["c_rate"].value == pytest.approx(10)
    assert counter["c_rate"].statistic == "mean rate over 8.00 s of the window's 10.00 s"
    gauge = gauge_quantities("g", "W", t, np.array([5.0, 5, 5]), WINDOW)
    assert (gauge["g_mean"].value, gauge["g_mean"].statistic) == (
        5,
        "time-weighted mean over 8.00 s of the window's 10.00 s",
    )


@pytest.mark.parametrize("t", [ns(), ns(15), ns(1, 2), ns(25, 26), ns(10, 14.9)])
def test_too_few_samples_are_unknown(t: np.ndarray) -> None:
    values = np.arange(t.size, dtype=np.float64)
    mean = gauge_quantities("g", "W", t, values, WINDOW)["g_mean"]
    growth = counter_quantities("c", "B", t, values, WINDOW)
    for quantity in (mean, growth["c"], growth["c_rate"]):
        assert quantity.value is None and quantity.reason


def samples(end: bool = True, **parts: object) -> Samples:
    columns = (
        Column("power", "W", "gauge", "gpu0"),
        Column("energy", "J", "counter", "gpu0", slow=True),
        Column("temperature", "C", "gauge", "gpu0", state="no_permission", reason="may not be read by this user"),
    )
    values = np.array([[100, np.nan, np.nan], [np.nan, 0, np.nan], [100, np.nan, np.nan], [np.nan, 1000, np.nan]])
    given = {"columns": columns, "t_ns": ns(9, 9.5, 20.5, 21), "values": values, **parts}
    account = {"cpu_s": 0.3, "wall_s": 20.0, "ticks": 200, "missed": 3}
    account["monitors"] = {  # type: ignore[assignment]
        "nvml": {"cpu_s": 0.1, "longest_s": 0.1, "overruns": 3},
        "host": {"cpu_s": 0.1, "longest_s": 0.1, "overruns": 3},
    }
    return Samples({"nvml": Series(**given)}, 0.1, account if end else None)  # type: ignore[arg-type]


def test_a_monitor() -> None:
    found = summarise(samples(), "nvml", Window(10 * S, 20 * S))
    assert found.reason == "there is no sample within the timed window"
    found = summarise(samples(t_ns=ns(9, 9.5, 15, 21)), "nvml", Window(10 * S, 15 * S))
    assert (found.reason, found.samples, found.overruns, found.period_s) == (None, 1, 3, 0.1)
    assert set(found.summary["gpu0"]) == {"power_mean", "power_max", "energy", "energy_rate"}
    assert found.summary["gpu0"]["power_mean"].value == 100
    assert found.unsampled["gpu0/temperature"].state == "no_permission"
    # The sampler used 0.3 s in 20 s, half of it for this monitor.
    assert found.cost is not None and found.cost.value == pytest.approx(0.0075)
    assert Monitored.model_validate(json.loads(found.model_dump_json())) == found


def test_a_dead_sampler_and_a_failed_monitor_are_reasons() -> None:
    dead = summarise(Samples(), "nvml", WINDOW, "the sampler ended early, by signal 9")
    assert (dead.reason, dead.samples) == ("the sampler ended early, by signal 9", 0)
    assert dead.cost is not None and dead.cost.value is None
    cut = summarise(samples(end=False, t_ns=ns(9, 9.5, 15, 21)), "nvml", Window(10 * S, 15 * S), "by signal 9")
    assert (cut.reason, cut.facts["ended_early"]) == (None, "by signal 9")
    failed = Series((), ns(), np.empty((0, 0)), failure="NVMLError: lost")
    assert summarise(Samples({"nvml": failed}), "nvml", WINDOW).reason == "NVMLError: lost"


def test_without_an_account_overruns_come_from_the_gaps() -> None:
    t = ns(0, 0.1, 0.2, 0.6, 0.7)
    series = Series((Column("g", "W", "gauge"),), t, np.ones((5, 1)))
    assert summarise(Samples({"m": series}, 0.1), "m", Window(0, S)).overruns == 3


def test_facts_are_the_last_of_the_window() -> None:
    facts = ((8 * S, {"a": 1, "b": 1}), (19 * S, {"a": 2}), (30 * S, {"a": 3}))
    found = summarise(samples(facts=facts), "nvml", WINDOW)
    assert found.facts == {"a": 2, "b": 1}
    assert "foreign" in FACTS


def test_a_column_can_have_a_rule_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def special(series: Series, column: int, window: Window) -> dict[str, Quantity]:
        value = float(series.of(column)[1][-1])
        return {"energy": Quantity(value=value, unit="J", kind="measured", statistic="mine")}

    monkeypatch.setitem(SPECIAL, "energy", special)
    found = summarise(samples(), "nvml", WINDOW).summary["gpu0"]
    assert found["energy"].statistic == "mine" and "energy_rate" not in found
