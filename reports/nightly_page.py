"""The nightly page: the verdict, the findings, a chart of each. From the gate's document and its series alone."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from tfscale.reports import html, text
from tfscale.reports.figures import nights
from tfscale.suite.nightly import outputs
from tfscale.suite.nightly.charted import Chart
from tfscale.suite.nightly.forms import VERDICTS, Finding, Gate

MOST_CHARTS = 30
TONES = {"regressed": "invalid", "missing": "invalid", "improved": "valid", "accepted": "unknown"}
SIGNS = {"regressed": "▼", "missing": "∅", "improved": "▲", "slow_node": "⚠", "accepted": "✓"}
"""Beside the word, so that nothing is said by colour alone."""
SECTIONS = (
    ("findings", "Findings"),
    ("charts", "Night by night"),
    ("beside", "Beside throughput"),
    ("series", "Every series"),
    ("trust", "What stands behind it"),
)


def nightly_report(gate: Gate, charts: Sequence[Chart]) -> str:
    """One self-contained HTML document; the same input gives the same text.

    `charts`: of the findings, in their order; at most MOST_CHARTS are drawn.
    """
    by_case = {(chart.case_id, chart.title, chart.machine): chart for chart in charts}
    drawn = list(by_case)[:MOST_CHARTS]
    findings = [_finding(one, number, by_case, drawn) for number, one in enumerate(gate.findings)]
    about = {(f.case_id, f.title, f.machine): f for f in gate.findings}
    context = {
        "gate": gate,
        "css": Markup(html.static("style.css")),
        "script": Markup(html.static("report.js")),
        "script_hash": html.hash_of(html.static("report.js")),
        "sections": [each for each in SECTIONS if each[0] != "beside" or gate.beside],
        "headline": outputs.headline(gate),
        "tally": [(v, outputs.WORDS[v], gate.summary.get(v, 0), _tone(v)) for v in VERDICTS],
        "findings": findings,
        "charts": [_chart(by_case[key], number, about.get(key)) for number, key in enumerate(drawn)],
        "undrawn": len(by_case) - len(drawn),
        "sayings": list(outputs.sayings(gate)),
        "tones": {verdict: _tone(verdict) for verdict in VERDICTS},
        "signs": SIGNS,
        "words": outputs.WORDS,
        "number": lambda value: text.NONE if value is None else text.number(value),
        "percent": lambda value: text.NONE if value is None else text.percent(value, 1),
        "quantity": text.quantity,
    }
    return html.templates().get_template("nightly.html").render(context)


def _tone(verdict: str) -> str:
    return TONES.get(verdict, "suspect" if verdict not in ("unchanged", "not_enough_data") else "unknown")


def _finding(one: Finding, number: int, charts: dict[Any, Chart], drawn: Sequence[Any]) -> dict[str, Any]:
    key = (one.case_id, one.title, one.machine)
    return {
        "f": one,
        "id": f"finding-{number}",
        "chart": f"chart-{drawn.index(key)}" if key in charts and key in drawn else None,
        "level": outputs.level(one).replace("->", "→"),
        "change": outputs.change(one),
        # Sorts by how sure it is, then by size.
        "sort": one.ratio if one.ratio is not None else 0,
        "causes": outputs.caused(one),
        "grew": outputs.grew(one),
    }


def _chart(chart: Chart, number: int, finding: Finding | None) -> dict[str, Any]:
    name = f"chart-{number}"
    bad = finding is not None and finding.verdict in ("regressed", "improved", "suspicious", "slow_node", "accepted")
    label = f"{chart.title}: {chart.unit} of {len(chart.points)} nights, {len(chart.levels)} levels"
    figure = (
        nights.nights(
            pd.DataFrame([vars(point) for point in chart.points]),
            _levels(chart),
            [night for night, _ in chart.marks],
            chart.since if bad else None,
            chart.missing,
            chart.runs,
            chart.unit,
            name,
            label,
        )
        if chart.points
        else ""
    )
    return {
        "id": name,
        "title": chart.title,
        "machine": chart.machine,
        "verdict": finding.verdict if finding is not None else "slow_node",
        "figure": Markup(figure),
        "marks": [(n, chart.runs[night], words) for n, (night, words) in enumerate(chart.marks, start=1)],
        "points": chart.points,
        "missing": [chart.runs[night] for night in chart.missing],
        "noise": chart.noise,
        "unit": chart.unit,
    }


def _levels(chart: Chart) -> pd.DataFrame:
    """The levels with one standard deviation of a night about each."""
    noise = chart.noise or 0.0
    rows = [(first, last, level, level * (1 - noise), level * (1 + noise)) for first, last, level in chart.levels]
    return pd.DataFrame(rows, columns=["first", "last", "level", "low", "high"])
