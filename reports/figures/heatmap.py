"""Heat map of precision x XLA: speed relative to float32 without XLA."""

import pandas as pd

from tfscale.reports.figures.speedmap import MARGIN, Cell, Form, speed_map

WIDTH, LEFT, TOP, ROW = 440, 112, 34, 58
"""Pixels of the map, of the row names, of the column names, and of a row."""
REACH = 2.0


def heat_map(cells: pd.DataFrame, name: str, label: str) -> str:
    """SVG of one map. `cells`: precision, xla, speed (NaN: none), below, why; rows and columns in order of the frame.

    `below` stands under the speed (its interval); `why` is a short word in an empty cell (pruned, failed, not run).
    """
    columns = {xla: f"xla {xla}" for xla in cells["xla"]}
    form = Form(LEFT, TOP, (WIDTH - LEFT - MARGIN) / len(columns), ROW, REACH)
    return speed_map(
        [
            Cell(
                row=each["precision"],
                column=each["xla"],
                speed=None if pd.isna(each["speed"]) else each["speed"],
                said=f"{each['speed']:.2f}×",
                below=str(each["below"]),
                why=str(each["why"]),
            )
            for each in cells.to_dict("records")
        ],
        form,
        {precision: precision for precision in cells["precision"]},
        columns,
        name,
        label,
    )
