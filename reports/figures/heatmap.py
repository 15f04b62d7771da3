"""Heat map of precision x XLA: speed relative to float32 without XLA, an empty cell saying why it is empty."""

import pandas as pd
import seaborn as sns
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle

from tfscale.reports import text
from tfscale.reports.figures import svg

WIDTH = 440
LEFT, TOP, ROW = 112, 34, 58
"""Pixels of the row names, of the column names, and of a row."""
REACH = 2.0
"""Speeds from 1/REACH to REACH span the colours; the same on every map, so that maps can be compared."""


def heat_map(cells: pd.DataFrame, name: str, label: str) -> str:
    """SVG of one map. `cells`: precision, xla, speed (NaN: none), below, why; rows and columns in order of the frame.

    `below` stands under the speed (its interval); `why` is a short word in an empty cell (pruned, failed, not run).
    """
    rows = list(dict.fromkeys(cells["precision"]))
    columns = list(dict.fromkeys(cells["xla"]))
    speeds = cells.pivot_table(index="precision", columns="xla", values="speed", dropna=False).reindex(rows)[columns]
    height = TOP + ROW * len(rows) + 6
    with svg.style():
        figure = svg.new_figure(WIDTH, height)
        axes = figure.add_axes((LEFT / WIDTH, 6 / height, 1 - (LEFT + 6) / WIDTH, ROW * len(rows) / height))
        sns.heatmap(
            speeds.astype(float), ax=axes, cmap=sns.color_palette("vlag_r", as_cmap=True), cbar=False, linewidths=2,
            linecolor="white", norm=LogNorm(1 / REACH, REACH, clip=True), xticklabels=columns, yticklabels=rows,
        )  # fmt: skip
        for cell in cells.to_dict("records"):
            x, y = columns.index(cell["xla"]), rows.index(cell["precision"])
            if pd.isna(cell["speed"]):
                axes.add_patch(Rectangle((x, y), 1, 1, fc="#f3f5f7", ec="white", lw=2))
                axes.text(x + 0.5, y + 0.5, text.printable(str(cell["why"])), ha="center", va="center", color=svg.MUTED)
                continue
            # The ends of the colours are dark.
            ink = "white" if not 0.62 < cell["speed"] < 1.62 else svg.INK
            axes.text(x + 0.5, y + 0.38, f"{cell['speed']:.2f}×", ha="center", va="center", color=ink, fontsize=12.5)
            axes.text(x + 0.5, y + 0.71, str(cell["below"]), ha="center", va="center", color=ink, fontsize=8.5)
        axes.xaxis.tick_top()
        axes.tick_params(length=0, labelsize=9.5, colors=svg.INK)
        axes.tick_params(axis="y", rotation=0)
        axes.set_xticklabels([f"xla {column}" for column in columns])
        axes.set(xlabel="", ylabel="")
        return svg.to_svg(figure, name, label)
