"""One case in full: every quantity with its kind, its checks, its trials, and the command that measures it again."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from tfscale.reports import frames, text
from tfscale.suite.record import Check, Record, Run


@dataclass(frozen=True)
class QuantityLine:
    name: str
    value: str
    interval: str
    kind: str
    statistic: str
    n_trials: int
    n_samples: str
    method: str
    reason: str


@dataclass(frozen=True)
class TrialLine:
    trial: int
    record_id: str
    step_time: str
    series: str
    loss: str
    status: str


@dataclass(frozen=True)
class CaseDetail:
    case_id: str
    title: str
    status: str
    commands: tuple[str, ...]
    quantities: tuple[QuantityLine, ...]
    checks: tuple[Check, ...]
    trials: tuple[TrialLine, ...]
    facts: tuple[tuple[str, str], ...]


def details(run: Run, quantities: pd.DataFrame, trials: pd.DataFrame) -> list[CaseDetail]:
    """Every case with a result, in the order of the run."""
    records: dict[str, list[Record]] = {}
    for record in run.records:
        records.setdefault(record.case_id, []).append(record)
    made = []
    for result in run.cases:
        mine = records.get(result.case_id, [])
        lines = quantities[quantities["case_id"] == result.case_id].to_dict("records")
        launches = trials[trials["case_id"] == result.case_id].sort_values("trial").to_dict("records")
        made.append(
            CaseDetail(
                result.case_id,
                frames.case_of(result.case).title,
                result.validity.status,
                tuple(dict.fromkeys(record.reproduce for record in mine)),
                tuple(quantity_line(line) for line in lines),
                result.validity.checks,
                tuple(_trial_line(launch) for launch in launches),
                _facts(mine[0]) if mine else (),
            )
        )
    return made


def quantity_line(row: dict[Any, Any]) -> QuantityLine:
    """One row of `frames.quantities` as text."""
    unit = row["unit"]
    known = pd.notna(row["value"])
    interval = text.NONE
    if known and pd.notna(row["low"]):
        interval = text.interval(row["low"], row["high"], unit)
    scope = {"within_trial": "within one trial", "across_trials": "over trials"}.get(row["scope"], row["scope"])
    return QuantityLine(
        name=str(row["name"]).replace("_", " "),
        value=text.quantity(row["value"], unit) if known else text.NONE,
        interval=interval,
        kind=row["kind"],
        statistic=row["statistic"],
        n_trials=row["n_trials"],
        n_samples=f"{row['n_samples']:,.0f}" if pd.notna(row["n_samples"]) else text.NONE,
        method=f"{row['ci_method']}, {scope}" if row["ci_method"] else text.NONE,
        reason="" if known else str(row["reason"]),
    )


def _trial_line(row: dict[Any, Any]) -> TrialLine:
    seconds = row["step_time"]
    series = f"{row['class']}: blocks {row['start']} to {row['stop']} are steady"
    shown = text.seconds(seconds) if seconds is not None and pd.notna(seconds) else text.NONE
    return TrialLine(row["trial"], row["record_id"], shown, series, str(row["loss"]).replace("_", " "), row["status"])


def _facts(record: Record) -> tuple[tuple[str, str], ...]:
    """What was really used and counted in the first trial. A null's reason stands in the null's place."""
    effective = record.effective
    used = {
        name: _with_reason(value, effective.get(f"{name}_reason"))
        for name, value in effective.items()
        if not (name.endswith("_reason") and name.removesuffix("_reason") in effective)
    }
    counts = {name: f"{count:,}" for name, count in record.counts.items()}
    return tuple((name.replace("_", " "), words) for name, words in text.flatten(used | counts).items())


def _with_reason(value: Any, reason: Any) -> Any:
    if value is None:
        return f"unknown: {reason or 'no reason given'}"
    return f"{value} ({reason})" if reason else value
