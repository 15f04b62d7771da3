"""The page of one trace: stacked parts per step and device, timeline strips, collectives, operations, what to know.

From the document and the strips alone; one self-contained HTML text without script.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from tfscale.reports import html
from tfscale.reports.parts import PARTS

STRIP_ROWS = (
    ("compute", "compute", "#2f6f9f"),
    ("exposed_communication", "exposed communication", "#c8553d"),
    ("hidden_communication", "hidden communication", "#e3aa9d"),
    ("exposed_copy", "exposed copy", "#d9a441"),
    ("input_wait", "input wait", "#6a8f4e"),
)
SECTIONS = (
    ("parts", "Parts of each step"),
    ("timeline", "Timeline"),
    ("collectives", "Collectives"),
    ("operations", "Operations"),
    ("honesty", "What to know"),
    ("definitions", "Definitions"),
)
MOST_STEPS, MOST_COLLECTIVES = 60, 100
_STRIP_WIDTH, _ROW_HEIGHT = 1200, 18


def trace_report(document: dict[str, Any], strips: Sequence[Mapping[str, Any]]) -> str:
    """One HTML document about an analysed trace; the same input gives the same text.

    `strips`: by device `device`, `start_ps`, `span_ps`, `shares` (by row, one number from 0 to 1 a bin) and `edges_ps`.
    """
    context = {
        "document": document,
        "css": Markup(html.static("style.css")),
        "sections": SECTIONS,
        "parts": PARTS,
        "strip_rows": STRIP_ROWS,
        "devices": [_device(host, device) for host in document["hosts"] for device in host["devices"]],
        "strips": [{"strip": strip, "svg": Markup(_svg(strip))} for strip in strips],
        "collectives": document["collectives"][:MOST_COLLECTIVES],
        "most_steps": MOST_STEPS,
        "ms": ms,
        "percent": percent,
        "count": lambda value: "unknown" if value is None else f"{value:,}",
        "bandwidth": lambda value: "unknown" if value is None else f"{value / 1e9:.3f} GB/s",
    }
    return html.templates().get_template("trace.html").render(context)


def ms(ps: float | None) -> str:
    return "unknown" if ps is None else f"{ps / 1e9:,.3f} ms"


def percent(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.1%}"


def _device(host: dict[str, Any], device: dict[str, Any]) -> dict[str, Any]:
    steps = device["steps"]
    longest = max((step["span_ps"] for step in steps), default=1) or 1
    span = sum(step["span_ps"] for step in steps)
    return {
        "name": f"{host['host']} {device['device']}",
        "source": device["step_source"],
        "count": len(steps),
        "mean_ps": span / len(steps) if steps else None,
        "mean": {name: sum(step["parts"][name] for step in steps) / span if span else None for name, _, _ in PARTS},
        "dropped": device["dropped_steps"],
        "operations": device["operations"],
        "copies": device["copies"],
        "bars": [
            {
                "step": step["step"],
                "span": ms(step["span_ps"]),
                "widths": [
                    (colour, label, 100 * step["parts"][name] / longest, ms(step["parts"][name]))
                    for name, label, colour in PARTS
                ],
            }
            for step in steps[:MOST_STEPS]
        ],
    }


def _svg(strip: Mapping[str, Any]) -> str:
    """Rows of vertical bars: the height of a bar is the share of its bin. Bins next to each other with the same share
    are one bar, so that the file stays small."""
    height = _ROW_HEIGHT * len(STRIP_ROWS)
    scale = _STRIP_WIDTH / max(len(strip["shares"][STRIP_ROWS[0][0]]), 1)
    drawn = []
    for row, (name, _, colour) in enumerate(STRIP_ROWS):
        base = (row + 1) * _ROW_HEIGHT - 2
        path = "".join(
            f"M{first * scale:.1f} {base}v{-tall:.1f}h{(last - first) * scale:.1f}v{tall:.1f}z"
            for first, last, share in _runs(strip["shares"][name])
            if (tall := share * (_ROW_HEIGHT - 4)) >= 0.1
        )
        drawn.append(f'<path d="{path}" fill="{colour}"/>')
    for edge in strip["edges_ps"]:
        x = edge / max(strip["span_ps"], 1) * _STRIP_WIDTH
        drawn.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}" stroke="#1c2430" stroke-width="1"/>')
    body = "".join(drawn)
    return (
        f'<svg class="chart" viewBox="0 0 {_STRIP_WIDTH} {height}" preserveAspectRatio="none" role="img" '
        f'aria-label="timeline" style="height:{height}px">{body}</svg>'
    )


def _runs(shares: Sequence[float]) -> list[tuple[int, int, float]]:
    """(first, behind last, share) of runs of bins with the same share, to a hundredth."""
    runs: list[tuple[int, int, float]] = []
    for at, share in enumerate(shares):
        rounded = round(share, 2)
        if runs and runs[-1][2] == rounded and runs[-1][1] == at:
            runs[-1] = (runs[-1][0], at + 1, rounded)
        else:
            runs.append((at, at + 1, rounded))
    return runs
