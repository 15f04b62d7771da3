"""Ratios with their intervals, one line each, over a logarithmic axis: halving is as far from 1 as doubling."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from tfscale.reports import text
from tfscale.reports.figures import svg

WIDTH, LINE, FRAME = 900, 28, 66
NAMES = 0.42
"""Share of the width that the names take."""
COLOURS = {"faster": "#0072b2", "slower": "#d55e00"}
MARKERS = {"faster": "^", "slower": "v", "no_difference_shown": "o", "no_interval": "x"}
"""Colour never stands alone: up is faster, down is slower, a ring shows nothing, a cross has no interval."""
_LONGEST = 58


@dataclass(frozen=True)
class Line:
    """One ratio. `mean`: it is a geometric mean of those above."""

    name: str
    value: float
    interval: tuple[float, float] | None
    shown: str
    mean: bool = False


def forest(lines: Sequence[Line], name: str, label: str) -> str:
    """SVG of the ratios B / A of throughputs, top to bottom in their order; the line at 1 is `no difference`."""
    with svg.style():
        height = FRAME + LINE * len(lines)
        figure = svg.new_figure(WIDTH, height)
        axes = figure.add_subplot()
        for place, line in enumerate(lines):
            _draw(axes, place, line)
        axes.set_xscale("log")
        axes.axvline(1, color="#9aa4b1", lw=1.2, ls="--", zorder=1)
        axes.set_ylim(len(lines) - 0.4, -0.6)
        axes.set_yticks(range(len(lines)), [_short(line.name) for line in lines])
        axes.tick_params(axis="y", length=0, labelcolor=svg.INK)
        _ticks(axes, lines)
        axes.set_xlabel("throughput of B / throughput of A (log scale): right of 1, B is faster", labelpad=6)
        axes.grid(axis="x", lw=0.6)
        axes.set_axisbelow(True)
        figure.subplots_adjust(left=NAMES, right=0.98, top=1 - 8 / height, bottom=48 / height)
        return svg.to_svg(figure, name, label)


def _draw(axes: Axes, place: int, line: Line) -> None:
    colour = COLOURS.get(line.shown, "#5f6b7a")
    if line.interval is not None:
        axes.plot(line.interval, [place, place], "-", color=colour, lw=3.2 if line.mean else 1.8, solid_capstyle="butt")
    hollow = line.shown == "no_difference_shown"
    axes.plot(
        [line.value], [place], marker="D" if line.mean else MARKERS.get(line.shown, "o"), ms=9 if line.mean else 7.5,
        color=colour, mfc="white" if hollow else colour, mew=1.6, ls="", zorder=3,
    )  # fmt: skip


def _ticks(axes: Axes, lines: Sequence[Line]) -> None:
    """Limits around all intervals, and round ratios within them."""
    ends = [1.0, *(end for line in lines for end in (line.interval or (line.value, line.value)))]
    low, high = np.log(min(ends)), np.log(max(ends))
    margin = max(0.08 * (high - low), 0.01)
    axes.set_xlim(np.exp(low - margin), np.exp(high + margin))
    span = high - low
    steps = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
    step = next((step for step in steps if span / np.log1p(step) <= 8), None)
    places = [2.0**n for n in range(-30, 31)] if step is None else [n * step for n in range(1, round(20 / step))]
    axes.xaxis.set_major_locator(FixedLocator([at for at in places if low - margin <= np.log(at) <= high + margin]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))


def _short(name: str) -> str:
    clean = text.printable(name)
    return clean if len(clean) <= _LONGEST else clean[: _LONGEST - 1] + "…"
