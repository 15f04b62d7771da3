"""Small multiples of counters: one low chart a counter, all over the same axis of steps, one line a device."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import escape
from numpy.typing import NDArray

from tfscale.reports import text
from tfscale.reports.figures import svg
from tfscale.reports.figures.trace import Scale

WIDTH, ROW, GAP = 330, 46, 16
LEFT, RIGHT, TOP = 46, 317, 14
FOOT = 30
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Row:
    """One counter. `lines`: (device, value of each block, NaN where nobody knows)."""

    title: str
    lines: Sequence[tuple[str, Floats]]
    floor: bool = True
    """Whether the axis begins at 0; a temperature or a clock would be a flat line on it."""


def small_multiples(steps: Floats, rows: Sequence[Row], label: str) -> str:
    """SVG. `steps` (b + 1,): steps done at the boundaries of the blocks; a value holds from one to the next."""
    height = TOP + len(rows) * (ROW + GAP) + FOOT - GAP
    x = Scale(float(steps[0]), float(steps[-1]) or 1.0, LEFT, RIGHT)
    marks: list[str] = []
    for number, row in enumerate(rows):
        top = TOP + number * (ROW + GAP)
        marks += _row(row, steps, x, top)
    foot = TOP + len(rows) * (ROW + GAP) - GAP
    for tick in x.ticks(6):
        marks.append(f'<line x1="{x(tick)}" x2="{x(tick)}" y1="{foot}" y2="{foot + 3}" stroke="#aab3bf"/>')
        marks.append(f'<text x="{x(tick)}" y="{foot + 14}" text-anchor="middle">{tick:,.6g}</text>')
    marks.append(f'<text x="{(LEFT + RIGHT) / 2:.0f}" y="{height - 3}" text-anchor="middle">step</text>')
    head = f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" style="max-width:{WIDTH * 1.15:.0f}px"'
    spoken = f'aria-label="{escape(text.printable(label))}"'
    return f'{head} {spoken} font-size="10.5" fill="{svg.MUTED}">{"".join(marks)}</svg>'


def _row(row: Row, steps: Floats, x: Scale, top: int) -> list[str]:
    known = np.concatenate([values[np.isfinite(values)] for _, values in row.lines])
    if known.size == 0:
        return [f'<text x="{LEFT}" y="{top + ROW / 2:.0f}">{escape(row.title)}: no samples</text>']
    low, high = (0.0 if row.floor else float(known.min())), float(known.max())
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    y = Scale(low if row.floor else low - margin, high + margin, top + ROW, top)
    marks = [f'<text x="{LEFT}" y="{top - 3}" fill="#2b3440">{escape(row.title)}</text>']
    for tick in y.ticks(2):
        marks.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y(tick)}" y2="{y(tick)}" stroke="{svg.GRID}"/>')
        marks.append(f'<text x="{LEFT - 5}" y="{y(tick)}" dy=".35em" text-anchor="end">{tick:,.4g}</text>')
    for number, (device, values) in enumerate(row.lines):
        ink = COLOURS[number % len(COLOURS)]
        told = f"<title>{escape(text.printable(device))}</title>" if device else ""
        marks.append(
            f'<path d="{_path(steps, values, x, y)}" fill="none" stroke="{ink}" stroke-width="1.2">{told}</path>'
        )
    return [*marks, f'<path d="M{LEFT} {top}V{top + ROW}H{RIGHT}" fill="none" stroke="#aab3bf"/>']


def _path(steps: Floats, values: Floats, x: Scale, y: Scale) -> str:
    """A step curve, broken where a value is not known."""
    words, drawing = [], False
    for begin, end, value in zip(steps[:-1], steps[1:], values, strict=True):
        if not np.isfinite(value):
            drawing = False
            continue
        words.append(f"{'V' + y(value) if drawing else 'M' + x(begin) + ' ' + y(value)}H{x(end)}")
        drawing = True
    return "".join(words) or "M0 0"
