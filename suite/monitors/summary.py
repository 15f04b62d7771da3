"""What a record keeps of a monitor: each column over the timed window, as quantities that say how they came about.

    gauge     <name>_mean (time-weighted), <name>_max
    counter   <name>, its growth, and <name>_rate, its growth per second

A window that the samples do not straddle is not stretched: the statistic names the seconds that they cover, and a
growth is then unknown, for the growth of a part is not that of the window.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tfscale.suite.monitors import align
from tfscale.suite.monitors.clocks import reason_quantities
from tfscale.suite.monitors.energy import energy_quantities
from tfscale.suite.monitors.gpuprocesses import processes_over
from tfscale.suite.monitors.processes import foreign_over
from tfscale.suite.monitors.series import Floats, Nanoseconds, Samples, Series, Window
from tfscale.suite.record import Monitored, Quantity, Unsampled, unknown

Quantities = dict[str, Quantity]
Special = Callable[[Series, int, Window], Quantities]
"""Quantities of column number n of a series, in place of the general ones."""

SPECIAL: dict[str, Special] = {"energy": energy_quantities, "clock_reasons": reason_quantities}
"""Column name -> how it is summarised, where the general rule does not do; asked for columns that are not ok too.

`energy` can then be had from power, and a mask of bits has no mean.
"""

FACTS: dict[str, Callable[[Sequence[tuple[int, Mapping[str, Any]]], Window], Any]] = {
    "foreign": foreign_over,
    "processes": processes_over,
}
"""Fact -> how those of a window become one, from (time, facts) pairs, where the last does not do."""

_RATE_UNITS = {"s": "1", "J": "W"}
"""Unit of a counter -> unit of its growth per second, where that has a name. Seconds per second: cores, or a share."""
_LEAST_COVERED = 0.5
"""Share of the window below which a mean of the covered part would say little of the window."""


def summarise(samples: Samples, monitor: str, window: Window, reason: str | None = None) -> Monitored:
    """What `monitor` saw over `window`. `reason`: why the sampler never began or ended early, if it did."""
    series = samples.monitors.get(monitor)
    why = (series.failure if series else None) or reason
    if series is None or not series.columns:
        why = why or "the sampler has written nothing of this monitor"
        return Monitored(reason=why, period_s=samples.period_s, cost=cost(samples, monitor))
    summary: dict[str, Quantities] = {}
    for number, column in enumerate(series.columns):
        if column.state == "ok" or column.name in SPECIAL:
            found = SPECIAL.get(column.name, column_quantities)(series, number, window)
            summary.setdefault(column.device or "", {}).update(found)
    inside = (series.t_ns >= window.t0_ns) & (series.t_ns <= window.t1_ns)
    counts = (~np.isnan(series.values[inside])).sum(axis=0)
    count = int(counts.max(initial=0))
    unsampled = {
        column.key: Unsampled(state=column.state, reason=column.reason or "the monitor gave no reason")
        for column in series.columns
        if column.state != "ok"
    }
    early = {"ended_early": why} if why and count else {}
    return Monitored(
        reason=None
        if count or len(unsampled) == len(series.columns)
        else why or "there is no sample within the timed window",
        period_s=samples.period_s,
        samples=count,
        overruns=_overruns(samples, monitor, series),
        cost=cost(samples, monitor),
        summary=summary,
        unsampled=unsampled,
        facts={**facts_over(series.facts, window), **early},
    )


def column_quantities(series: Series, number: int, window: Window) -> Quantities:
    """The general rule for one column."""
    column = series.columns[number]
    t_ns, values = series.of(number)
    if column.kind == "gauge":
        return gauge_quantities(column.name, column.unit, t_ns, values, window)
    return counter_quantities(column.name, column.unit, t_ns, values, window, column.wraps_at)


def gauge_quantities(name: str, unit: str, t_ns: Nanoseconds, values: Floats, window: Window) -> Quantities:
    """Mean and maximum of a gauge. The mean takes straight lines between samples, the maximum the samples in it."""
    inside = (t_ns >= window.t0_ns) & (t_ns <= window.t1_ns)
    count = int(inside.sum())
    covered, why = _covered(t_ns, window)
    mean, most = "time-weighted mean", "maximum"
    found: Quantities = {}
    if covered is None:
        found[f"{name}_mean"] = unknown(unit, "measured", mean, why)
    else:
        (value,) = align.gauge_means(t_ns, values, np.array(covered, dtype=np.int64))
        found[f"{name}_mean"] = _measured(float(value), unit, mean + _over(covered, window), count)
    found[f"{name}_max"] = (
        _measured(float(values[inside].max()), unit, most, count)
        if count
        else unknown(unit, "measured", most, "there is no sample within the timed window")
    )
    return found


def counter_quantities(
    name: str, unit: str, t_ns: Nanoseconds, values: Floats, window: Window, wraps_at: float = 2.0**32
) -> Quantities:
    """Growth and rate of a counter, interpolated at the window's ends; unknown where it was reset within it."""
    rate_unit = _RATE_UNITS.get(unit, f"{unit}/s")
    covered, why = _covered(t_ns, window)
    if covered is not None:
        around = _around(t_ns, covered)
        t_ns, values = t_ns[around], align.unwrap(values, wraps_at)[around]
        if reset := align.first_reset(t_ns, values):
            at = (reset.t_ns - window.t0_ns) / 1e9
            why = f"the counter was reset {at:.1f} s into the window, from {reset.before:.15g} to {reset.after:.15g}"
            covered = None
    if covered is None:
        return {
            name: unknown(unit, "measured", "growth", why),
            f"{name}_rate": unknown(rate_unit, "measured", "mean rate", why),
        }
    count = int(((t_ns >= window.t0_ns) & (t_ns <= window.t1_ns)).sum())
    (rate,) = align.counter_rates(t_ns, values, np.array(covered, dtype=np.int64))
    whole = covered == window
    return {
        name: _measured(float(rate) * window.seconds, unit, "growth", count)
        if whole
        else unknown(unit, "measured", "growth", _uncovered(covered, window)),
        f"{name}_rate": _measured(float(rate), rate_unit, "mean rate" + _over(covered, window), count),
    }


def cost(samples: Samples, monitor: str) -> Quantity:
    """Share of one core that sampling this monitor took, what the sampler itself needs divided in proportion."""
    end = samples.end
    if end is None:
        return unknown("1", "measured", "mean", "the sampler did not come to say what it used: it ended early")
    used = {name: float(found["cpu_s"]) for name, found in end["monitors"].items()}
    if monitor not in used or end["wall_s"] <= 0:
        return unknown("1", "measured", "mean", "the sampler does not name this monitor in its account")
    part = used[monitor] / sum(used.values()) if sum(used.values()) > 0 else 1 / len(used)
    return _measured(end["cpu_s"] * part / end["wall_s"], "1", "mean", int(end["ticks"]))


def facts_over(facts: Sequence[tuple[int, Mapping[str, Any]]], window: Window) -> dict[str, Any]:
    """Facts of the window: by the rule of FACTS, else the last that was known within it, or before it, or at all."""
    rising = sorted(facts, key=lambda entry: entry[0])
    known = [found for t_ns, found in rising if t_ns <= window.t1_ns] or [found for _, found in rising[:1]]
    merged = {key: value for found in known for key, value in found.items()}
    return {key: FACTS[key](facts, window) if key in FACTS else value for key, value in merged.items()}


def _covered(t_ns: Nanoseconds, window: Window) -> tuple[Window | None, str]:
    """The part of the window between the first and the last sample, or None and why that is too little."""
    if t_ns.size == 0:
        return None, "no value of it could be read"
    covered = Window(max(window.t0_ns, int(t_ns[0])), min(window.t1_ns, int(t_ns[-1])))
    if covered.t1_ns <= covered.t0_ns or covered.seconds < _LEAST_COVERED * window.seconds:
        return None, _uncovered(covered, window)
    return covered, ""


def _around(t_ns: Nanoseconds, covered: Window) -> slice:
    """The samples of the covered part, with the last before and the first after it."""
    first = int(np.searchsorted(t_ns, covered.t0_ns, side="right")) - 1
    return slice(first, int(np.searchsorted(t_ns, covered.t1_ns)) + 1)


def _over(covered: Window, window: Window) -> str:
    return "" if covered == window else f" over {covered.seconds:.2f} s of the window's {window.seconds:.2f} s"


def _uncovered(covered: Window, window: Window) -> str:
    if covered.t1_ns <= covered.t0_ns:
        return f"no samples on both sides of any part of the timed window ({window.seconds:.2f} s)"
    before, after = (covered.t0_ns - window.t0_ns) / 1e9, (window.t1_ns - covered.t1_ns) / 1e9
    parts = [f"its {which} {seconds:.2f} s" for which, seconds in (("first", before), ("last", after)) if seconds > 0]
    return f"of the timed window ({window.seconds:.2f} s), {' and '.join(parts)} have no samples"


def _overruns(samples: Samples, monitor: str, series: Series) -> int:
    """Ticks missed: as the sampler counted them, or, where it did not come to say, from the gaps between stamps."""
    told = (samples.end or {}).get("monitors", {}).get(monitor)
    if told is not None:
        return int(told["overruns"])
    if samples.period_s is None or series.t_ns.size < 2:
        return 0
    gaps = np.rint(np.diff(series.t_ns) / (samples.period_s * 1e9))
    return int(np.maximum(gaps - 1, 0).sum())


def _measured(value: float, unit: str, statistic: str, count: int) -> Quantity:
    return Quantity(value=value, unit=unit, kind="measured", statistic=statistic, n_samples=count)
