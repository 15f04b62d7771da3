"""Precision x XLA: for each otherwise equal setting, the speed of every cell relative to float32 without XLA."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import pandas as pd

from tfscale.reports import frames, text
from tfscale.reports.efficiencies import points_of
from tfscale.reports.figures import heatmap
from tfscale.suite.analysis.scaling import ThroughputPoint, efficiency
from tfscale.suite.record import CaseResult, Failure, Pruned, Quantity, Run
from tfscale.suite.spec import Case, Precision, Xla

REFERENCE = ("float32", "none")
Points = Mapping[str, ThroughputPoint]
"""Case id -> its throughput."""


@dataclass(frozen=True)
class Map:
    title: str
    subtitle: str
    figure: str
    caption: str
    reasons: tuple[str, ...]
    """Why cells are empty, in words."""
    cells: tuple[dict[str, Any], ...]


def setting(case: Case) -> str:
    """Everything but precision and XLA: cases with the same text here belong on one map."""
    return case.model_copy(update={"precision": "float32", "xla": "none"}).id


def maps(run: Run) -> list[Map]:
    """One map for every setting that was asked for at two or more combinations of precision and XLA."""
    points = {each.result.case_id: each.point for each in points_of(run)}
    asked: dict[str, list[tuple[Case, Any]]] = {}
    documents: list[CaseResult | Failure | Pruned] = [*run.cases, *run.failed, *run.pruned]
    for document in documents:
        case = frames.case_of(document.case)
        asked.setdefault(setting(case), []).append((case, document))
    wanted = [group for group in asked.values() if len({(case.precision, case.xla) for case, _ in group}) > 1]
    measured = [group for group in wanted if any(isinstance(document, CaseResult) for _, document in group)]
    return [_map(f"map{index}", group, points) for index, group in enumerate(measured)]


def _map(name: str, group: Sequence[tuple[Case, Any]], points: Points) -> Map:
    found: dict[tuple[str, str], Any] = {}
    for case, document in group:  # results come first: a case of which only one trial failed has a speed
        found.setdefault((case.precision, case.xla), document)
    precisions = [value for value in get_args(Precision) if any(key[0] == value for key in found)]
    xlas = [value for value in get_args(Xla) if any(key[1] == value for key in found)]
    cells = [_cell(found, precision, xla, points) for precision in precisions for xla in xlas]
    case = group[0][0]
    words = [
        frames.line_of(case),
        text.plural(case.devices, "device"),
        f"batch {case.step_batch:,} in all",
        frames.other_of(case),
    ]
    title, subtitle = f"{case.workload} {case.preset}", " · ".join(word for word in words if word)
    spoken = "; ".join(
        f"{cell['precision']} with xla {cell['xla']}: " + (str(cell["why"]) or f"{cell['speed']:.2f} times")
        for cell in cells
    )
    frame = pd.DataFrame(cells)
    figure = heatmap.heat_map(frame, name, f"Speed relative to float32 without XLA, {title}, {subtitle}. {spoken}")
    reasons = tuple(dict.fromkeys(cell["reason"] for cell in cells if cell["reason"]))
    return Map(title, subtitle, figure, _caption(cells), reasons, tuple(cells))


def _cell(found: Mapping[tuple[str, str], Any], precision: str, xla: str, points: Points) -> dict[str, Any]:
    cell: dict[str, Any] = {"precision": precision, "xla": xla, "speed": math.nan, "low": math.nan, "high": math.nan}
    cell |= {"below": "", "kind": "", "scope": "", "why": "", "reason": ""}
    document = found.get((precision, xla))
    why, reason = _emptiness(document, found.get(REFERENCE))
    if why:
        return cell | {"why": why, "reason": f"{precision}, xla {xla}: {reason}"}
    speed = ratio(points[found[REFERENCE].case_id], points[found[precision, xla].case_id])
    low, high = speed.ci95 or (math.nan, math.nan)
    below = "no interval" if math.isnan(low) else f"{low:.2f}–{high:.2f}"
    below = "reference" if (precision, xla) == REFERENCE else below
    return cell | {
        "speed": speed.value, "low": low, "high": high, "below": below, "kind": speed.kind, "scope": speed.scope,
    }  # fmt: skip


def ratio(base: ThroughputPoint, mine: ThroughputPoint) -> Quantity:
    """`mine` / `base` in throughput, with the interval that scaling has: at equal devices an efficiency is a ratio.

    The keys are emptied because precision and XLA, which no curve may mix, are what is compared here.
    """
    if base is mine:
        base = replace(base, key={"per_replica_batch": 1})
        return efficiency(base, base, mode="weak").value
    key = {"per_replica_batch": 1}
    return efficiency(replace(base, key=key), replace(mine, key=key), mode="weak").value


def _emptiness(document: Any, base: Any) -> tuple[str, str]:
    """A word for an empty cell and the reason, or two empty strings where there is a speed to show."""
    if document is None:
        return "not run", "not part of this run"
    if not isinstance(document, CaseResult):
        return ("failed" if hasattr(document, "classification") else "pruned"), str(document.reason)
    mine = document.quantities.get("throughput")
    if document.validity.status == "INVALID":
        return "invalid", "; ".join(c.detail for c in document.validity.checks if c.status == "INVALID") or "INVALID"
    if mine is None or mine.value is None:
        return "unknown", str(mine.reason) if mine else "throughput is not on the record"
    if not isinstance(base, CaseResult) or base.validity.status == "INVALID":
        return "no reference", "there is no valid float32 case without XLA to compare with"
    reference = base.quantities.get("throughput")
    if reference is None or reference.value is None:
        return "no reference", "the float32 case without XLA has no throughput"
    if frames.checked(mine, "throughput").kind != frames.checked(reference, "throughput").kind:
        return "other kind", f"{mine.kind} and {reference.kind} are not compared"
    return "", ""


def _caption(cells: Sequence[Mapping[str, Any]]) -> str:
    shown = [cell for cell in cells if cell["kind"]]
    if not shown:
        return ""
    parts = [
        "Derived from throughput (" + " and ".join(sorted({cell["kind"] for cell in shown})) + "); above 1 is faster."
    ]
    if any(cell["scope"] == "within_trial" for cell in shown):
        parts.append("Intervals are within one trial: they do not show how launches differ.")
    return " ".join(parts)


def speeds(made: Sequence[Map]) -> pd.DataFrame:
    """Every cell of the maps in one frame, with what its map is about."""
    found = [
        cell | {"title": each.title, "about": f"{each.title}, {each.subtitle}"} for each in made for cell in each.cells
    ]
    return pd.DataFrame(found, columns=["title", "about", "precision", "xla", "speed", "low", "high", "scope"])
