"""Where a step goes: the parts of every profiled case, and what was lost between device counts."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from tfscale.reports import frames
from tfscale.reports.parts import PARTS
from tfscale.suite.analysis.waterfall import LABELS, waterfall
from tfscale.suite.record import Record, Run


@dataclass(frozen=True)
class Bar:
    """The mean step of one profiled case."""

    case_id: str
    title: str
    total: str
    widths: tuple[tuple[str, str, float, str], ...]
    """(colour, label, percent of the step, words) of each part."""
    note: str


@dataclass(frozen=True)
class Fall:
    """The waterfall of one case against one baseline."""

    case_id: str
    title: str
    baseline: str
    efficiency: str
    rows: tuple[tuple[str, str], ...]
    """(what, points of the step), the largest first; with the efficiency they make 100 %."""


def bars(run: Run) -> list[Bar]:
    """A bar a record with a breakdown, in the order of the run."""
    return [_bar(record) for record in run.records if record.breakdown]


def _bar(record: Record) -> Bar:
    found: dict[str, Any] = record.breakdown or {}
    span = found["span_ps"] or 1
    ratio = found.get("profiled_over_timed")
    notes = [f"steps from {found['step_source']}"]
    if found.get("distorted"):
        notes.append(f"the profiled step took {ratio:.2f} times the timed one, so the shares are in doubt")
    share = found.get("unclassified_share")
    if share:
        notes.append(f"{share:.1%} of the device time unclassified")
    return Bar(
        case_id=record.case_id,
        title=frames.case_of(record.case).title,
        total=f"{span / 1e9:,.2f} ms",
        widths=tuple(
            (colour, label, 100 * found["parts"][name] / span, f"{found['parts'][name] / span:.1%}")
            for name, label, colour in PARTS
        ),
        note="; ".join(notes),
    )


def falls(run: Run, shares: pd.DataFrame) -> list[Fall]:
    """The waterfalls of cases whose baseline was profiled too; `shares` are the run's efficiencies."""
    profiled = {record.case_id: record for record in run.records if record.breakdown}
    steps = {case.case_id: case.quantities["step_time"].value for case in run.cases if "step_time" in case.quantities}
    made = []
    for row in shares.to_dict("records"):
        base, case = row["baseline_id"], row["case_id"]
        known = base in profiled and case in profiled and steps.get(base) and steps.get(case)
        if base != case and known and pd.notna(row["value"]):
            made.append(_fall(profiled[base], profiled[case], steps[base] or 0.0, steps[case] or 0.0, row["baseline"]))
    return made


def _fall(base: Record, other: Record, base_step_s: float, step_s: float, name: str) -> Fall:
    cases = frames.case_of(base.case), frames.case_of(other.case)
    # The same work per optimiser step and replica in weak scaling; a fixed global batch spread over more in strong.
    scale = cases[0].devices / cases[1].devices if cases[1].scaling != "weak" and name == "one_device" else 1.0
    found = waterfall(base.breakdown or {}, other.breakdown or {}, base_step_s, step_s, scale)
    ordered = sorted(found.lost.items(), key=lambda item: -abs(item[1]))
    return Fall(
        case_id=other.case_id,
        title=cases[1].title,
        baseline=name.replace("_", " "),
        efficiency=f"{found.efficiency:.1%}",
        rows=tuple((LABELS[part], f"{100 * share:+.1f}") for part, share in ordered if abs(share) >= 0.0005),
    )
