"""A series over the nights: each night's level with its trials, the levels found, the noise, what changed when."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, NullLocator

from tfscale.reports import text
from tfscale.reports.figures import svg

WIDTH, HEIGHT = 760, 250
NIGHT, LEVEL, BAD, MARK = "#0072b2", "#1c2430", "#b3261e", "#8a95a3"
_MOST_LABELS = 6


def nights(
    points: pd.DataFrame,
    levels: pd.DataFrame,
    marks: Sequence[int],
    since: int | None,
    missing: Sequence[int],
    runs: Sequence[str],
    unit: str,
    name: str,
    label: str,
) -> str:
    """SVG of one series.

    `points`: night, level, low, high, outlier; `levels`: first, last, level, low, high (a night's noise about it);
    `marks`: nights with which software changed, numbered as in the page's list; `since`: first night at the new level.
    """
    with svg.style():
        figure = svg.new_figure(WIDTH, HEIGHT)
        axes = figure.add_subplot()
        for row in levels.to_dict("records"):
            ends = [row["first"] - 0.4, row["last"] + 0.4]
            axes.fill_between(ends, row["low"], row["high"], color="#eceff3", lw=0, zorder=1)
            axes.plot(ends, [row["level"]] * 2, color=LEVEL, lw=1.6, zorder=3)
        _points(axes, points, since)
        for night in missing:
            axes.plot([night], [0.02], "x", color=MARK, ms=5, mew=1.2, transform=axes.get_xaxis_transform(), zorder=2)
        _marks(axes, marks)
        if since is not None:
            axes.axvline(since - 0.5, color=BAD, lw=1.2, zorder=2)
        _axes(axes, runs, unit)
        figure.subplots_adjust(left=0.085, right=0.99, top=0.93, bottom=0.16)
        return svg.to_svg(figure, name, label)


def _points(axes: Axes, points: pd.DataFrame, since: int | None) -> None:
    """Filled at a level, hollow where set aside as an outlier; from the first bad night on squares."""
    axes.vlines(points["night"], points["low"], points["high"], color="#8fb8d6", lw=1.0, zorder=4)
    bad = points["night"] >= (since if since is not None else len(points) + points["night"].max() + 1)
    for late, marker, ink in ((False, "o", NIGHT), (True, "s", BAD)):
        own = points[bad == late]
        style: dict[str, Any] = {"edgecolor": ink, "linewidth": 1.2, "legend": False, "ax": axes, "zorder": 5}
        for hollow, some in own.groupby("outlier"):
            sns.scatterplot(
                data=some, x="night", y="level", marker=marker, s=20, color="white" if hollow else ink, **style
            )


def _marks(axes: Axes, marks: Sequence[int]) -> None:
    for number, night in enumerate(marks, start=1):
        axes.axvline(night - 0.5, color=MARK, lw=1, ls=(0, (3, 3)), zorder=1)
        place: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 8.5, "color": svg.MUTED}
        axes.text(night - 0.5, 1.01, str(number), transform=axes.get_xaxis_transform(), **place)


def _axes(axes: Axes, runs: Sequence[str], unit: str) -> None:
    axes.set_xlim(-0.8, len(runs) - 0.2)
    low, high = axes.get_ylim()
    room = max((high - low) * 0.06, high * 0.002)
    axes.set_ylim(max(low - room, 0), high + room)
    step = max(1, -(-len(runs) // _MOST_LABELS))
    places = list(range(0, len(runs), step))
    axes.xaxis.set_major_locator(FixedLocator([float(place) for place in places]))
    axes.xaxis.set_major_formatter(FixedFormatter([text.printable(day(runs[place])) for place in places]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.set_xlabel("")
    axes.set_ylabel(text.printable(unit), labelpad=6)
    axes.grid(axis="y")
    axes.set_axisbelow(True)


def day(run: str) -> str:
    """The date that a run's id begins with, as `2026-03-01`; another id as it is."""
    head = run[:8]
    return f"{head[:4]}-{head[4:6]}-{head[6:]}" if len(head) == 8 and head.isdecimal() else run[:12]
