"""A heat map of speeds against a reference: one cell a combination, an empty cell saying why it is empty."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle

from tfscale.reports import text
from tfscale.reports.figures import svg

MARGIN = 6
"""Pixels below and to the right."""
DARK = 0.68
"""Share of the colours' reach, in logarithms, from which they are so dark that words on them must be white."""


@dataclass(frozen=True)
class Form:
    """What two maps may have apart: pixels of row names, column names, columns and rows, and the reach of the colours."""

    left: float
    top: float
    column: float
    row: float
    reach: float
    """Speeds from 1/reach to reach span the colours; the same on every map of a kind, so that they can be compared."""


@dataclass(frozen=True)
class Cell:
    """One combination. `speed` None: there is none, and `why` says so in a short word; `below` stands under the speed."""

    row: str
    column: str
    speed: float | None
    said: str = ""
    """The speed in words."""
    below: str = ""
    why: str = ""
    wins: bool = False
    """Framed, and in bold."""


def speed_map(
    cells: Sequence[Cell], form: Form, rows: dict[str, str], columns: dict[str, str], name: str, label: str
) -> str:
    """SVG of one map. `rows` and `columns`: what each is called, in the order in which they stand."""
    speeds = pd.DataFrame(float("nan"), index=list(rows), columns=list(columns))
    for cell in cells:
        speeds.loc[cell.row, cell.column] = float("nan") if cell.speed is None else cell.speed
    width, height = form.left + form.column * len(columns) + MARGIN, form.top + form.row * len(rows) + MARGIN
    with svg.style():
        figure = svg.new_figure(width, height)
        area = (form.left / width, MARGIN / height, form.column * len(columns) / width, form.row * len(rows) / height)
        axes = figure.add_axes(area)
        sns.heatmap(
            speeds, ax=axes, cmap=sns.color_palette("vlag_r", as_cmap=True), cbar=False, linewidths=2,
            linecolor="white", norm=LogNorm(1 / form.reach, form.reach, clip=True),
            xticklabels=list(columns.values()), yticklabels=list(rows.values()),
        )  # fmt: skip
        for cell in cells:
            _draw(axes, cell, list(columns).index(cell.column), list(rows).index(cell.row), form.reach)
        axes.xaxis.tick_top()
        axes.tick_params(length=0, labelsize=9, colors=svg.INK)
        axes.tick_params(axis="both", rotation=0)
        axes.set(xlabel="", ylabel="")
        return svg.to_svg(figure, name, label)


def _draw(axes: Any, cell: Cell, x: int, y: int, reach: float) -> None:
    if cell.speed is None:
        axes.add_patch(Rectangle((x, y), 1, 1, fc="#f3f5f7", ec="white", lw=2))
        axes.text(x + 0.5, y + 0.5, text.printable(cell.why), ha="center", va="center", color=svg.MUTED)
        return
    ink = svg.INK if reach**-DARK < cell.speed < reach**DARK else "white"
    middle = {"ha": "center", "va": "center", "color": ink}
    axes.text(x + 0.5, y + 0.38, cell.said, fontsize=12, fontweight="bold" if cell.wins else "normal", **middle)
    axes.text(x + 0.5, y + 0.71, cell.below, fontsize=8, **middle)
    if cell.wins:
        axes.add_patch(Rectangle((x + 0.03, y + 0.04), 0.94, 0.92, fill=False, ec=svg.INK, lw=2))
