import numpy as np
import pynvml
import pytest

from tfscale.suite.monitors import clocks
from tfscale.suite.monitors.base import Column
from tfscale.suite.monitors.series import Samples, Series, Window
from tfscale.suite.monitors.summary import summarise

BINDING = {
    "idle": pynvml.nvmlClocksEventReasonGpuIdle,
    "application_clocks": pynvml.nvmlClocksEventReasonApplicationsClocksSetting,
    "sw_power_cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "hw_slowdown": pynvml.nvmlClocksThrottleReasonHwSlowdown,
    "sync_boost": pynvml.nvmlClocksEventReasonSyncBoost,
    "sw_thermal": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "hw_thermal": pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
    "power_brake": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
    "display_clocks": pynvml.nvmlClocksEventReasonDisplayClockSetting,
}


@pytest.mark.parametrize("name", BINDING)
def test_bits_are_those_of_the_binding(name: str) -> None:
    assert clocks.reasons(BINDING[name]) == [name]


def test_several_and_unknown_bits() -> None:
    assert clocks.reasons(0) == []
    assert clocks.reasons(0x4 | 0x40 | 1 << 40) == ["sw_power_cap", "hw_thermal", "bit_40"]


def test_shares_of_a_window() -> None:
    """Ten samples, of which the window holds 2 to 7: masks 4, 4, 4, 0x44, 0, 0."""
    masks = np.array([8, 8, 4, 4, 4, 0x44, 0, 0, 8, 8], dtype=float)
    column = Column("clock_reasons", "bits", "gauge", "gpu0")
    series = Series((column,), np.arange(10, dtype=np.int64), masks[:, None])
    window = Window(2, 7)
    expected = {"hw_slowdown": 0, "sw_thermal": 0, "power_brake": 0, "sw_power_cap": 4 / 6, "hw_thermal": 1 / 6}
    assert clocks.shares(series, "gpu0", window) == pytest.approx(expected)
    assert clocks.shares(series, "gpu1", window) is None
    assert clocks.shares(series, "gpu0", Window(20, 30)) is None
    kept = summarise(Samples({"nvml": series}), "nvml", window).summary["gpu0"]
    assert {name: quantity.value for name, quantity in kept.items()} == pytest.approx(
        {f"clock_share_{reason}": share for reason, share in expected.items()}
    )


@pytest.mark.parametrize(("t1", "share"), [(10, 0.25), (99, None)])
def test_share_of_time_by_a_violation_counter(t1: int, share: float | None) -> None:
    """A quarter of a second each second; a window that ends after the samples is not guessed at."""
    t_ns = np.arange(12, dtype=np.int64) * 1_000_000_000
    series = Series((Column("violation_thermal", "s", "counter", "gpu0"),), t_ns, (7 + 0.25 * np.arange(12.0))[:, None])
    found = clocks.violation_share(series, "gpu0", "violation_thermal", Window(500_000_000, t1 * 1_000_000_000))
    assert found == (None if share is None else pytest.approx(share))
