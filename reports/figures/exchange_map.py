"""Heat map of network x exchange: speed relative to `none`, the winner of each network framed."""

import pandas as pd
import seaborn as sns
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle

from tfscale.reports import text
from tfscale.reports.figures import svg

LEFT, TOP, COLUMN, ROW = 150, 40, 86, 52
"""Pixels of the names of networks and exchanges, of a column and of a row."""
REACH = 8.0
"""Speeds from 1/REACH to REACH span the colours; the same on every map."""
WRAP = 13
"""Letters of a name in one line of its column."""


def exchange_map(cells: pd.DataFrame, name: str, label: str) -> str:
    """SVG of one map. `cells`: network, exchange, speed (NaN: none), below, why, wins; in order of rows and columns."""
    rows = list(dict.fromkeys(cells["network"]))
    columns = list(dict.fromkeys(cells["exchange"]))
    # A pivot would sort, and drop what is empty throughout.
    speeds = pd.DataFrame(float("nan"), index=rows, columns=columns)
    for cell in cells.to_dict("records"):
        speeds.loc[cell["network"], cell["exchange"]] = cell["speed"]
    width, height = LEFT + COLUMN * len(columns) + 6, TOP + ROW * len(rows) + 6
    with svg.style():
        figure = svg.new_figure(width, height)
        axes = figure.add_axes((LEFT / width, 6 / height, COLUMN * len(columns) / width, ROW * len(rows) / height))
        sns.heatmap(
            speeds.astype(float), ax=axes, cmap=sns.color_palette("vlag_r", as_cmap=True), cbar=False, linewidths=2,
            linecolor="white", norm=LogNorm(1 / REACH, REACH, clip=True), xticklabels=columns, yticklabels=rows,
        )  # fmt: skip
        for cell in cells.to_dict("records"):
            x, y = columns.index(cell["exchange"]), rows.index(cell["network"])
            if pd.isna(cell["speed"]):
                axes.add_patch(Rectangle((x, y), 1, 1, fc="#f3f5f7", ec="white", lw=2))
                axes.text(x + 0.5, y + 0.5, text.printable(str(cell["why"])), ha="center", va="center", color=svg.MUTED)
                continue
            # The ends of the colours are dark.
            ink = "white" if not 0.25 < cell["speed"] < 4 else svg.INK
            weight = "bold" if cell["wins"] else "normal"
            said = f"{text.number(cell['speed'], 3)}×"
            axes.text(x + 0.5, y + 0.38, said, ha="center", va="center", color=ink, fontsize=12, fontweight=weight)
            axes.text(x + 0.5, y + 0.71, str(cell["below"]), ha="center", va="center", color=ink, fontsize=8)
            if cell["wins"]:
                axes.add_patch(Rectangle((x + 0.03, y + 0.04), 0.94, 0.92, fill=False, ec=svg.INK, lw=2))
        axes.xaxis.tick_top()
        axes.tick_params(length=0, labelsize=9, colors=svg.INK)
        axes.tick_params(axis="y", rotation=0)
        axes.set_xticklabels([wrapped(column) for column in columns], rotation=0)
        axes.set_yticklabels([wrapped(row, 24) for row in rows])
        axes.set(xlabel="", ylabel="")
        return svg.to_svg(figure, name, label)


def wrapped(name: str, letters: int = WRAP) -> str:
    """`powersgd(rank=4)` in lines that fit a column: broken before a parenthesis, behind a comma, else anywhere."""
    lines = [""]
    for part in text.printable(name).replace("(", "\n(").replace(", ", ",\n").split("\n"):
        if len(lines[-1]) + len(part) <= letters:
            lines[-1] += part
        else:
            lines += [part[at : at + letters] for at in range(0, len(part), letters)]
    return "\n".join(line for line in lines if line)
