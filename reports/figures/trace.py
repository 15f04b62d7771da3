"""Block-time trace of a case: step time over elapsed time, the warm-up cut, the levels.

There is one for every case, so these are written as SVG directly: matplotlib takes a tenth of a second for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import escape
from matplotlib.ticker import MaxNLocator

from tfscale.reports import text
from tfscale.reports.figures import svg

WIDTH, HEIGHT = 330, 150
LEFT, RIGHT, TOP, BOTTOM = 46, 317, 8, 114
MOST_POINTS = 240
"""Points a line keeps; more would be finer than its pixels."""
COLOURS = ("#0072b2", "#8fb8d6", "#bccfdd", "#d5dde4")
LEVEL = "#d55e00"


def downsample(values: pd.DataFrame, most: int = MOST_POINTS) -> pd.DataFrame:
    """At most `most` rows of `values`, in order: the least and greatest `step_ms` of each of most/2 equal stretches.

    A mean would hide the very spikes that a trace is looked at for.
    """
    if len(values) <= most:
        return values
    stretch = np.arange(len(values)) * (most // 2) // len(values)
    groups = values["step_ms"].reset_index(drop=True).groupby(stretch)
    return values.iloc[sorted({*groups.idxmin(), *groups.idxmax()})]


@dataclass(frozen=True)
class Scale:
    """From data to pixels along one axis."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> str:
        place = self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start)
        return f"{place:.1f}".removesuffix(".0")

    def ticks(self, most: int) -> list[float]:
        found = MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10]).tick_values(self.low, self.high)
        return [float(tick) for tick in found if self.low <= tick <= self.high]


def block_trace(traces: Sequence[pd.DataFrame], levels: pd.DataFrame, cut_s: float | None, label: str) -> str:
    """SVG of one case.

    `traces`: one frame a trial (elapsed_s, step_ms), the first in front; `levels`: from_s, to_s, step_ms of the first
    trial; `cut_s`: where its warm-up ends, None where nothing was cut.
    """
    end = max(float(trace["elapsed_s"].iloc[-1]) for trace in traces)
    x = Scale(0.0, end or 1.0, LEFT, RIGHT)
    y = Scale(*_range(traces), BOTTOM, TOP)
    marks = [*_cut(cut_s, x), *_axes(x, y)]
    for index, trace in reversed(list(enumerate(traces))):
        ink = COLOURS[min(index, len(COLOURS) - 1)]
        marks.append(f'<path d="{_path(downsample(trace), x, y)}" fill="none" stroke="{ink}" stroke-width="1.2"/>')
    for level in levels.to_dict("records"):
        height = y(level["step_ms"])
        line = f'x1="{x(level["from_s"])}" x2="{x(level["to_s"])}" y1="{height}" y2="{height}"'
        marks.append(f'<line {line} stroke="{LEVEL}" stroke-width="2"/>')
    head = f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" style="max-width:{WIDTH * 1.15:.0f}px"'
    spoken = f'aria-label="{escape(text.printable(label))}"'
    return f'{head} {spoken} font-size="10.5" fill="{svg.MUTED}">{"".join(marks)}</svg>'


def _range(traces: Sequence[pd.DataFrame]) -> tuple[float, float]:
    """The y axis holds every block; it starts at 0.8 of the fastest, so that noise does not look like a cliff."""
    steps = pd.concat([trace["step_ms"] for trace in traces])
    low, high = float(steps.min()), float(steps.max())
    return 0.8 * low, max(1.05 * high, 1.2 * low) or 1.0


def _path(trace: pd.DataFrame, x: Scale, y: Scale) -> str:
    return "M" + "L".join(f"{x(s)} {y(ms)}" for s, ms in zip(trace["elapsed_s"], trace["step_ms"], strict=True))


def _cut(cut_s: float | None, x: Scale) -> list[str]:
    if not cut_s or cut_s <= 0:
        return []
    height = BOTTOM - TOP
    return [
        f'<rect x="{LEFT}" y="{TOP}" width="{float(x(cut_s)) - LEFT:.1f}" height="{height}" fill="#eceff3"/>',
        f'<line x1="{x(cut_s)}" x2="{x(cut_s)}" y1="{TOP}" y2="{BOTTOM}" stroke="#6b7685" stroke-dasharray="4 3"/>',
    ]


def _axes(x: Scale, y: Scale) -> list[str]:
    marks = []
    for tick in y.ticks(4):
        marks.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y(tick)}" y2="{y(tick)}" stroke="{svg.GRID}"/>')
        marks.append(f'<text x="{LEFT - 5}" y="{y(tick)}" dy=".35em" text-anchor="end">{tick:,.6g}</text>')
    marks.append(f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="#aab3bf"/>')
    for tick in x.ticks(6):
        marks.append(f'<line x1="{x(tick)}" x2="{x(tick)}" y1="{BOTTOM}" y2="{BOTTOM + 3}" stroke="#aab3bf"/>')
        marks.append(f'<text x="{x(tick)}" y="{BOTTOM + 15}" text-anchor="middle">{tick:,.6g}</text>')
    middle = (TOP + BOTTOM) / 2
    marks.append(f'<text x="{(LEFT + RIGHT) / 2:.0f}" y="{HEIGHT - 5}" text-anchor="middle">elapsed, s</text>')
    marks.append(f'<text transform="translate(10 {middle:.0f}) rotate(-90)" text-anchor="middle">step, ms</text>')
    return marks
