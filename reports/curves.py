"""Scaling curves: which cases may share a chart and a line, and what each chart must say about itself."""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tfscale.reports import text
from tfscale.reports.figures import scaling, svg

PANEL = ["workload", "preset", "scaling", "batch", "precision", "xla", "math", "other"]
"""Cases that share a chart agree in all of these; within it, a line also agrees in how gradients travel and in kind."""
BASELINE_WORDS = {
    "one_device": "against one device",
    "one_node": "against one node",
    "independent": "against independent",
}
SCALING_WORDS = {
    "weak": "weak scaling, {batch:,} a replica",
    "strong": "strong scaling, {batch:,} in all",
    "accumulated": "global batch {batch:,} kept by accumulation",
}


@dataclass(frozen=True)
class Panel:
    """Charts of one group of comparable cases. `legend`: (name, colour); `dashes`: (words, style word of the CSS)."""

    title: str
    subtitle: str
    figures: tuple[tuple[str, str], ...]
    """(heading, SVG)"""
    legend: tuple[tuple[str, str], ...]
    dashes: tuple[tuple[str, str], ...]
    caption: str


def panels(cases: pd.DataFrame, quantities: pd.DataFrame, efficiencies: pd.DataFrame) -> list[Panel]:
    """One panel for each group of cases that was run at two device counts or more. INVALID cases are never drawn."""
    rates = quantities[(quantities["name"] == "throughput") & quantities["value"].notna()]
    points = cases.merge(rates, on="case_id")
    made = []
    for index, (key, group) in enumerate(points.groupby(PANEL, sort=False)):
        drawn = _lines(group[group["status"] != "INVALID"])
        if drawn["devices"].nunique() > 1:
            left_out = int((group["status"] == "INVALID").sum())
            made.append(_panel(f"curve{index}", _named(key), drawn, efficiencies, left_out))
    return made


def _named(key: Hashable) -> dict[str, Any]:
    return dict(zip(PANEL, key if isinstance(key, tuple) else (key,), strict=True))


def _lines(points: pd.DataFrame) -> pd.DataFrame:
    """`points` with a line name that never joins two kinds, nor two host counts at one device count."""
    points = points.copy()
    twice = points.duplicated(["line", "devices", "kind"], keep=False)
    points.loc[twice, "line"] += ", " + points.loc[twice, "hosts"].astype(str) + " hosts"
    if points["kind"].nunique() > 1:
        points["line"] += " (" + points["kind"].astype(str) + ")"
    return points.reset_index(drop=True)


def _panel(name: str, key: dict[str, Any], points: pd.DataFrame, efficiencies: pd.DataFrame, left_out: int) -> Panel:
    base = points[(points["strategy"] == "one_device") & (points["devices"] == 1)]
    ideal = (1, float(base["value"].iloc[0])) if len(base) else None
    unit = str(points["unit"].iloc[0])
    title = f"{key['workload']} {key['preset']}"
    mode = SCALING_WORDS[key["scaling"]].format(batch=key["batch"])
    parts = (mode, key["precision"], f"xla {key['xla']}", key["math"], key["other"])
    subtitle = " · ".join(part for part in parts if part)
    shown = efficiencies.drop(columns=["reason"]).merge(
        points[["case_id", "line", "strategy", "devices", "status"]], on="case_id"
    )
    shown = shown[shown["value"].notna()]
    where = f"{title}, {subtitle}"
    figures = [
        (
            "Throughput",
            scaling.throughput(_with_start(points, base), ideal, unit, f"{name}t", _spoken(points, where, unit)),
        )
    ]
    if (shown["devices"] > 1).any():
        figures.append(("Efficiency", scaling.efficiency(_with_one(shown), f"{name}e", _spoken_shares(shown, where))))
    legend = points.drop_duplicates("line")
    return Panel(
        title,
        subtitle,
        tuple(figures),
        tuple((str(row["line"]), svg.colour(str(row["strategy"]))) for row in legend.to_dict("records")),
        _dashes(shown),
        _caption(points, shown, ideal, left_out),
    )


def _with_start(points: pd.DataFrame, base: pd.DataFrame) -> pd.DataFrame:
    """`points` with the one-device case put before each line that has no single device of its own: a named baseline."""
    starts = [
        base.assign(line=line, strategy=group["strategy"].iloc[0], start=True)
        for line, group in points.groupby("line", sort=False)
        if group["devices"].min() > 1 and len(base) and group["kind"].iloc[0] == base["kind"].iloc[0]
    ]
    return pd.concat([points.assign(start=False), *starts], ignore_index=True)


def _with_one(shown: pd.DataFrame) -> pd.DataFrame:
    """`shown` with the start of each line against one device, which is 1 by definition."""
    lines = shown[shown["baseline"] == "one_device"].groupby("line", sort=False)
    first = [group.head(1).assign(devices=1, value=1.0, low=math.nan, high=math.nan, start=True)
             for _, group in lines if group["devices"].min() > 1]  # fmt: skip
    return pd.concat([shown.assign(start=False), *first], ignore_index=True)


def _dashes(shown: pd.DataFrame) -> tuple[tuple[str, str], ...]:
    styles = {"one_device": "solid", "one_node": "dashed", "independent": "dotted"}
    return tuple(
        (BASELINE_WORDS.get(name, f"against {name}"), styles.get(name, "solid"))
        for name in dict.fromkeys(shown["baseline"])
    )


def _caption(points: pd.DataFrame, shown: pd.DataFrame, ideal: tuple[int, float] | None, left_out: int) -> str:
    parts = ["Throughput: " + " and ".join(sorted(set(points["kind"]))) + "."]
    if len(shown):
        parts.append("Efficiency: " + " and ".join(sorted(set(shown["kind"]))) + ".")
    within = int((points["scope"] == "within_trial").sum())
    if within == len(points):
        parts.append("Bars are 95 % intervals within one trial: they do not show how launches differ.")
    elif within:
        parts.append(f"Bars are 95 % intervals over trials, but within one trial for {within} of {len(points)} points.")
    else:
        parts.append("Bars are 95 % intervals over trials.")
    if (points["status"] == "SUSPECT").any():
        parts.append("A hollow point is SUSPECT.")
    if ideal is None:
        parts.append("No ideal is drawn: the run has no one_device case with these settings.")
    if left_out:
        parts.append(f"{text.plural(left_out, 'INVALID case')} left out.")
    return " ".join(parts)


def _spoken(points: pd.DataFrame, where: str, unit: str) -> str:
    lines = [
        f"{line}: " + ", ".join(f"{text.number(row['value'])} at {row['devices']}" for row in group.to_dict("records"))
        for line, group in points.sort_values("devices", kind="stable").groupby("line", sort=False)
    ]
    return f"Throughput in {unit} over devices for {where}. " + "; ".join(lines)


def _spoken_shares(shown: pd.DataFrame, where: str) -> str:
    words = [
        f"{row['line']} at {row['devices']}: {text.percent(row['value'])} "
        + BASELINE_WORDS.get(row["baseline"], row["baseline"])
        for row in shown[shown["devices"] > 1].to_dict("records")
    ]
    return f"Scaling efficiency over devices for {where}. " + "; ".join(words)
