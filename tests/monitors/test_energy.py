from typing import Any

import numpy as np
import pytest

from tfscale.suite.monitors import energy
from tfscale.suite.monitors.base import Column
from tfscale.suite.monitors.series import Samples, Series, Window
from tfscale.suite.monitors.summary import summarise

SECOND = 1_000_000_000
T_NS = np.arange(301, dtype=np.int64) * (SECOND // 10) + 5 * SECOND
SECONDS = (T_NS - T_NS[0]) / 1e9
WINDOW = Window(int(T_NS[0]) + 5 * SECOND, int(T_NS[0]) + 25 * SECOND)
NEVER = 2.0**64 * 1e-3


def series(**columns: Any) -> Series:
    """Of gpu0: values, or None for a column that is unsupported."""
    described, values = [], []
    for name, found in columns.items():
        kind = "counter" if name == "energy" else "gauge"
        bad = {"state": "unsupported", "reason": "the card has none"} if found is None else {}
        described.append(Column(name, "J" if name == "energy" else "W", kind, "gpu0", wraps_at=NEVER, **bad))
        values.append(np.broadcast_to(np.nan if found is None else found, T_NS.size))
    return Series(tuple(described), T_NS, np.array(values, dtype=np.float64).T)


def test_a_counter_grows_by_power_times_time() -> None:
    found = energy.counted(T_NS, 1e6 + 250.0 * SECONDS, WINDOW, NEVER)
    assert found.value == pytest.approx(250.0 * 20)
    assert (found.unit, found.kind, found.statistic) == ("J", "measured", "growth of the energy counter")


def test_a_counter_is_read_between_samples() -> None:
    """Ends at 0.03 s and 0.07 s after a sample."""
    window = Window(WINDOW.t0_ns + 30_000_000, WINDOW.t1_ns + 70_000_000)
    assert energy.counted(T_NS, 250.0 * SECONDS, window, NEVER).value == pytest.approx(250.0 * 20.04)


@pytest.mark.parametrize(("at_s", "known"), [(2.0, True), (15.0, False), (28.0, True)])
def test_a_reset_counts_where_it_is_in_the_window(at_s: float, known: bool) -> None:
    counter = 1e6 * (at_s > SECONDS) + 250.0 * SECONDS
    found = energy.counted(T_NS, counter, WINDOW, NEVER)
    if known:
        assert found.value == pytest.approx(5000)
    else:
        assert found.value is None
        assert "reset 10.0 s into the window" in str(found.reason)


def test_a_wrap_of_a_small_counter_is_no_reset() -> None:
    """RAPL: 250 W over 20 s through a counter that begins again at 4000 J."""
    found = energy.counted(T_NS, np.mod(1000.0 + 250.0 * SECONDS, 4000.0), WINDOW, 4000.0)
    assert found.value == pytest.approx(5000)


def test_constant_and_rising_power_have_exact_integrals() -> None:
    """Of 300 W: 6000 J. Of 10 W/s t from 5 s to 25 s: 5 (25^2 - 5^2) = 3000 J, which trapezoids hit exactly."""
    found = energy.integrated(T_NS, np.full(T_NS.size, 300.0), WINDOW)
    assert found.value == pytest.approx(6000)
    assert (found.kind, found.statistic) == ("derived", "integral of sampled power (trapezoids)")
    assert energy.integrated(T_NS, 10.0 * SECONDS, WINDOW).value == pytest.approx(3000)


def test_a_whole_period_of_a_sine_adds_nothing() -> None:
    watts = 200 + 100 * np.sin(2 * np.pi * SECONDS / 4)  # five periods in 20 s
    assert energy.integrated(T_NS, watts, WINDOW).value == pytest.approx(4000, rel=1e-9)


@pytest.mark.parametrize(("seconds", "known"), [(9.9, False), (10.0, True)])
@pytest.mark.parametrize("name", ["energy", "power"])
def test_short_windows_have_none(name: str, seconds: float, known: bool) -> None:
    window = Window(WINDOW.t0_ns, WINDOW.t0_ns + round(seconds * SECOND))
    found = energy.device_energy(series(**{name: 100.0 * SECONDS}), "gpu0", window)
    assert (found.value is not None) == known
    assert known or "10 s" in str(found.reason)


def test_a_window_that_samples_do_not_cover_has_none() -> None:
    window = Window(WINDOW.t0_ns, int(T_NS[-1]) + SECOND)
    for name in ("energy", "power"):
        assert energy.device_energy(series(**{name: 100.0 * SECONDS}), "gpu0", window).value is None


@pytest.mark.parametrize(
    ("columns", "joules", "method"),
    [
        ({"power": 300.0, "energy": 250 * SECONDS}, 5000, "growth of the energy counter"),
        ({"power": 300.0, "energy": None}, 6000, "integral of sampled power (trapezoids)"),
        (
            {"power": None, "energy": None, "power_average": 290.0},
            5800,
            "integral of sampled power_average (trapezoids)",
        ),
        ({"power": None, "energy": None}, None, "growth of the energy counter"),
    ],
)
def test_which_comes_first_and_what_a_record_keeps(columns: Any, joules: float | None, method: str) -> None:
    kept = summarise(Samples({"nvml": series(**columns)}), "nvml", WINDOW).summary["gpu0"]
    assert kept["energy"].value == (None if joules is None else pytest.approx(joules))
    assert kept["energy"].statistic == method
    assert kept["energy_rate"].value == (None if joules is None else pytest.approx(joules / 20))
    if joules is None:
        assert "the card has none" in str(kept["energy"].reason)
