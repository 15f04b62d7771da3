"""Energy over a window: the growth of a counter, else the integral of sampled power, and which of them it was.

The counter of a card counts all of the time; its power reading covers a quarter of it on A100 and H100 (arXiv
2312.02741), so that the counter comes first. The boundary is the device itself: for a host's share, see RAPL.
"""

import numpy as np

from tfscale.suite.monitors import align
from tfscale.suite.monitors.series import Floats, Nanoseconds, Series, Window
from tfscale.suite.record import Quantity, unknown

LEAST_S = 10.0
"""Shorter windows have no energy: readings are refreshed too slowly, and lag behind the load."""
POWER = ("power", "power_average", "power_instant")
"""Columns that can be integrated, the first that a device has."""
COUNTED, INTEGRATED = "growth of the energy counter", "integral of sampled power (trapezoids)"


def counted(t_ns: Nanoseconds, joules: Floats, window: Window, wraps_at: float) -> Quantity:
    """Growth in J of a cumulative counter over the window, straight lines between samples. A reset gives null."""
    if why := _unfit(t_ns, window):
        return unknown("J", "measured", COUNTED, why)
    first = int(np.searchsorted(t_ns, window.t0_ns, side="right")) - 1
    around = slice(first, int(np.searchsorted(t_ns, window.t1_ns)) + 1)
    times, values = t_ns[around], align.unwrap(joules, wraps_at)[around]
    if reset := align.first_reset(times, values):
        at = (reset.t_ns - window.t0_ns) / 1e9
        why = f"the counter was reset {at:.1f} s into the window, from {reset.before:.15g} J to {reset.after:.15g} J"
        return unknown("J", "measured", COUNTED, why)
    (rate,) = align.counter_rates(times, values, np.array(window, dtype=np.int64))
    return _energy(float(rate), t_ns, window, COUNTED)


def integrated(t_ns: Nanoseconds, watts: Floats, window: Window, column: str = "power") -> Quantity:
    """Integral in J of sampled power over the window by the trapezoid rule; `column` says which reading it was."""
    method = INTEGRATED if column == "power" else INTEGRATED.replace("power", column)
    if why := _unfit(t_ns, window):
        return unknown("J", "derived", method, why)
    (mean,) = align.gauge_means(t_ns, watts, np.array(window, dtype=np.int64))
    return _energy(float(mean), t_ns, window, method).model_copy(update={"kind": "derived"})


def device_energy(series: Series, device: str | None, window: Window) -> Quantity:
    """Energy of one device: by its counter where it has one, else by its power, else null with the counter's reason."""
    named = {column.name: number for number, column in enumerate(series.columns) if column.device == device}
    counter = named.get("energy")
    if counter is not None and series.columns[counter].state == "ok":
        t_ns, values = series.of(counter)
        return counted(t_ns, values, window, series.columns[counter].wraps_at)
    for name in POWER:
        if name in named and series.columns[named[name]].state == "ok":
            return integrated(*series.of(named[name]), window, name)
    why = None if counter is None else series.columns[counter].reason
    reason = f"no energy counter ({why or 'none is sampled'}), and no power to integrate"
    return unknown("J", "measured", COUNTED, reason)


def energy_quantities(series: Series, number: int, window: Window) -> dict[str, Quantity]:
    """`energy`, and `energy_rate` in W, of the device of an `energy` column; for the summary of a record."""
    column = series.columns[number]
    if column.device is None and column.state != "ok":
        return {}  # there is no such device at all, which the column's own state says
    energy = device_energy(series, column.device, window)
    if energy.value is None:
        rate = energy.model_copy(update={"unit": "W", "statistic": f"mean rate by {energy.statistic}"})
    else:
        change = {"value": energy.value / window.seconds, "unit": "W", "statistic": f"mean rate by {energy.statistic}"}
        rate = energy.model_copy(update=change)
    return {"energy": energy, "energy_rate": rate}


def _unfit(t_ns: Nanoseconds, window: Window) -> str | None:
    """Why samples at these times tell no energy of the window."""
    if window.seconds < LEAST_S:
        return f"the timed window is {window.seconds:.1f} s, and energy is told from {LEAST_S:g} s on"
    if t_ns.size == 0:
        return "no value could be read"
    if t_ns[0] > window.t0_ns or t_ns[-1] < window.t1_ns:
        return "the samples do not cover the whole of the timed window"
    return None


def _energy(watts: float, t_ns: Nanoseconds, window: Window, method: str) -> Quantity:
    count = int(((t_ns >= window.t0_ns) & (t_ns <= window.t1_ns)).sum())
    return Quantity(value=watts * window.seconds, unit="J", kind="measured", statistic=method, n_samples=count)
