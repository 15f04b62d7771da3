"""Heat map of network x exchange: speed relative to `none`, the winner of each network framed."""

import pandas as pd

from tfscale.reports import text
from tfscale.reports.figures.speedmap import Cell, Form, speed_map

FORM = Form(left=150, top=40, column=86, row=52, reach=8.0)
WRAP = 13
"""Letters of a name in one line of its column."""


def exchange_map(cells: pd.DataFrame, name: str, label: str) -> str:
    """SVG of one map. `cells`: network, exchange, speed (NaN: none), below, why, wins; in order of rows and columns."""
    return speed_map(
        [
            Cell(
                row=each["network"],
                column=each["exchange"],
                speed=None if pd.isna(each["speed"]) else each["speed"],
                said=f"{text.number(each['speed'], 3)}×",
                below=str(each["below"]),
                why=str(each["why"]),
                wins=bool(each["wins"]),
            )
            for each in cells.to_dict("records")
        ],
        FORM,
        {network: wrapped(network, 24) for network in cells["network"]},
        {exchange: wrapped(exchange) for exchange in cells["exchange"]},
        name,
        label,
    )


def wrapped(name: str, letters: int = WRAP) -> str:
    """`powersgd(rank=4)` in lines that fit a column: broken before a parenthesis, behind a comma, else anywhere."""
    lines = [""]
    for part in text.printable(name).replace("(", "\n(").replace(", ", ",\n").split("\n"):
        if len(lines[-1]) + len(part) <= letters:
            lines[-1] += part
        else:
            lines += [part[at : at + letters] for at in range(0, len(part), letters)]
    return "\n".join(line for line in lines if line)
