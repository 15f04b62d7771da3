"""Scaling charts: throughput against ideal, and efficiency against each baseline, over the number of devices."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, NullLocator

from tfscale.reports import text
from tfscale.reports.figures import svg

WIDTH, HEIGHT = 520, 320
WIDE_RANGE = 16
"""From this ratio of most to fewest devices both axes are logarithmic."""
BASELINE_STYLE = {"one_device": "-", "one_node": "--", "independent": ":"}
DODGE = 0.007
"""Horizontal shift from line to line, as a share of the axis, so that error bars do not hide each other."""


def throughput(points: pd.DataFrame, ideal: tuple[int, float] | None, unit: str, name: str, label: str) -> str:
    """SVG of throughput over devices. `points`: line, strategy, devices, value, low, high, status, start.

    `ideal` is (devices, throughput) of the baseline; the straight line through it and the origin is drawn dashed.
    """
    with svg.style():
        figure = svg.new_figure(WIDTH, HEIGHT)
        axes = figure.add_subplot()
        wide = _axis_of_devices(axes, points["devices"])
        if ideal is not None:
            devices = sorted({ideal[0], *points["devices"]})
            axes.plot(devices, [n * ideal[1] / ideal[0] for n in devices], "--", color="#9aa4b1", lw=1.2, zorder=1)
            end = (devices[-1], devices[-1] * ideal[1] / ideal[0])
            place: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "va": "bottom"}
            axes.annotate("ideal", end, (-6, 2), color=svg.MUTED, fontsize=9, **place)
        for index, (_, line) in enumerate(points.groupby("line", sort=False)):
            _line(axes, line, index, "-", wide)
        if wide:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.set_ylabel(text.printable(f"throughput, {unit}"), labelpad=7)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        figure.subplots_adjust(left=0.15, right=0.985, top=0.96, bottom=0.15)
        return svg.to_svg(figure, name, label)


def efficiency(points: pd.DataFrame, name: str, label: str) -> str:
    """SVG of efficiency over devices. `points`: line, strategy, baseline, devices, value, low, high, status,
    start."""
    with svg.style():
        figure = svg.new_figure(WIDTH, HEIGHT)
        axes = figure.add_subplot()
        wide = _axis_of_devices(axes, points["devices"])
        axes.axhline(1, ls="--", color="#9aa4b1", lw=1.2, zorder=1)
        places = {line: index for index, line in enumerate(dict.fromkeys(points["line"]))}
        for (line, baseline), some in points.groupby(["line", "baseline"], sort=False):
            _line(axes, some, places[line], BASELINE_STYLE.get(str(baseline), "-"), wide)
        highest = max(points["value"].max(), points["high"].max(), 1.0)
        axes.set_ylim(0, highest * 1.08)
        axes.set_ylabel("scaling efficiency", labelpad=7)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
        figure.subplots_adjust(left=0.15, right=0.985, top=0.96, bottom=0.15)
        return svg.to_svg(figure, name, label)


def _axis_of_devices(axes: Axes, devices: "pd.Series[int]") -> bool:
    """Ticks at the device counts that were run; True where the axis is logarithmic."""
    counts = sorted({1, *(int(count) for count in devices)})
    wide = counts[-1] / counts[0] > WIDE_RANGE
    if wide:
        axes.set_xscale("log", base=2)
        axes.set_xlim(counts[0] / 1.2, counts[-1] * 1.2)
    else:
        room = max(0.35, (counts[-1] - counts[0]) * 0.07)
        axes.set_xlim(counts[0] - room, counts[-1] + room)
    axes.xaxis.set_major_locator(FixedLocator([float(count) for count in counts]))
    axes.xaxis.set_major_formatter(FixedFormatter([str(count) for count in counts]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("devices")
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    return wide


def _line(axes: Axes, line: pd.DataFrame, index: int, dashes: str, wide: bool) -> None:
    """One line with its intervals; a SUSPECT point is hollow, the `start` on a baseline is none of its own points."""
    line = line.sort_values("devices").reset_index(drop=True)
    ink = svg.colour(str(line["strategy"].iloc[0]))
    low, high = axes.get_xlim()
    offset = ((index + 1) // 2) * (-1 if index % 2 else 1) * DODGE
    devices = line["devices"].astype(float)
    places = devices * (high / low) ** offset if wide else devices + offset * (high - low)
    places = places.where(~line["start"].astype(bool), devices)
    axes.plot(places, line["value"], dashes, color=ink, lw=1.7, zorder=2)
    own = line[~line["start"].astype(bool)]
    known = own[own["low"].notna() & own["high"].notna()]
    if len(known):
        axes.vlines(places[known.index], known["low"], known["high"], color=ink, lw=1.2, zorder=3)
        for end in ("low", "high"):
            axes.plot(places[known.index], known[end], "_", color=ink, ms=7, mew=1.2, zorder=3)
    for hollow, some in own.groupby(own["status"] != "VALID"):
        style: dict[str, Any] = {"mfc": "white" if hollow else ink, "mec": ink, "ms": 4.5, "mew": 1.4}
        axes.plot(places[some.index], some["value"], "o", zorder=4, **style)
