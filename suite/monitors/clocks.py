"""Why a card's clocks are below what they could be: event reasons and violation times.

Bits are those of nvmlClocksEventReasons in nvml.h. A mask is the reasons at the moment of a sample, so a share of
samples estimates a share of time; violation counters count the time itself. Never run here on a real card.
"""

from collections.abc import Mapping

import numpy as np

from tfscale.suite.monitors import align
from tfscale.suite.monitors.series import Series, Window
from tfscale.suite.record import Quantity

REASONS: Mapping[int, str] = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "power_brake",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}
SLOWDOWNS = ("hw_slowdown", "sw_thermal", "hw_thermal", "power_brake")
"""Reasons that a healthy, cooled, well-fed card does not have."""
POWER_CAP = "sw_power_cap"
"""The card keeps to its power limit: normal under full load in a data centre."""


def reasons(mask: int) -> list[str]:
    """Names of the bits that are set, lowest first; one without a name is `bit_<n>`."""
    return [REASONS.get(1 << bit, f"bit_{bit}") for bit in range(mask.bit_length()) if mask >> bit & 1]


def shares(series: Series, device: str, window: Window) -> dict[str, float] | None:
    """Reason -> share of the window's samples in which it held, for one device; None where there is no sample.

    SLOWDOWNS and POWER_CAP are always among the keys, others where they held at all.
    """
    number = _column(series, device, "clock_reasons")
    if number is None:
        return None
    t_ns, values = series.of(number)
    masks = values[(t_ns >= window.t0_ns) & (t_ns <= window.t1_ns)].astype(np.int64)
    if masks.size == 0:
        return None
    counts = dict.fromkeys((*SLOWDOWNS, POWER_CAP), 0)
    for mask, count in zip(*np.unique(masks, return_counts=True), strict=True):
        for reason in reasons(int(mask)):
            counts[reason] = counts.get(reason, 0) + int(count)
    return {reason: count / masks.size for reason, count in counts.items()}


def violation_share(series: Series, device: str, name: str, window: Window) -> float | None:
    """Share of the window that a violation counter counted (`violation_thermal`); None where it does not cover it."""
    number = _column(series, device, name)
    if number is None:
        return None
    t_ns, values = series.of(number)
    first = int(np.searchsorted(t_ns, window.t0_ns, side="right")) - 1
    if first < 0 or t_ns[-1] < window.t1_ns:
        return None
    around = slice(first, int(np.searchsorted(t_ns, window.t1_ns)) + 1)
    if align.first_reset(t_ns[around], values[around]):
        return None
    (share,) = align.counter_rates(t_ns[around], values[around], np.array(window, dtype=np.int64))
    return float(share)


def reason_quantities(series: Series, number: int, window: Window) -> dict[str, Quantity]:
    """`clock_share_<reason>` of the device of a `clock_reasons` column; nothing where there is no sample."""
    device = series.columns[number].device
    found = shares(series, device, window) if device else None
    t_ns, _ = series.of(number)
    count = int(((t_ns >= window.t0_ns) & (t_ns <= window.t1_ns)).sum())
    return {
        f"clock_share_{reason}": Quantity(
            value=share, unit="1", kind="measured", statistic="share of samples", n_samples=count
        )
        for reason, share in (found or {}).items()
    }


def _column(series: Series, device: str, name: str) -> int | None:
    for number, column in enumerate(series.columns):
        if column.device == device and column.name == name and column.state == "ok":
            return number
    return None
