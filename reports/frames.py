"""A run as tables: one row a case, a quantity, a trial, a phase, a failure, a pruned case. Nothing is computed anew."""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

import pandas as pd

from tfscale.reports import text
from tfscale.suite.record import CaseResult, Failure, Kind, Quantity, Record, Run
from tfscale.suite.spec import Case

KINDS: tuple[str, ...] = get_args(Kind)
MATH = {"float32": "float32", "tf32": "tf32", "mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}
"""Precision -> the arithmetic of matrix products that it asks for."""
LINE_AXES = ("strategy", "exchange", "collective", "transport", "ranks")
"""What tells one line of a scaling chart from another."""
NAMED_AXES = (
    "workload", "preset", "devices", "hosts", "precision", "xla", "per_replica_batch", "global_batch", "accumulation",
    *LINE_AXES,
)  # fmt: skip
"""Axes with a column or a place of their own; all others are shown together as `other`."""

CASE_COLUMNS = [
    "case_id", "title", "workload", "preset", "strategy", "devices", "hosts", "scaling", "batch", "micro_batch",
    "step_batch", "precision", "xla", "math", "line", "other", "status", "trials",
]  # fmt: skip
QUANTITY_COLUMNS = [
    "case_id", "name", "value", "unit", "kind", "statistic", "low", "high", "ci_method", "scope", "n_trials",
    "n_samples", "reason",
]  # fmt: skip
TRIAL_COLUMNS = [
    "record_id", "case_id", "title", "workload", "preset", "trial", "created", "status", "class", "start", "stop",
    "levels", "step_time", "kind", "loss",
]  # fmt: skip
PHASE_COLUMNS = ["case_id", "title", "workload", "preset", "record_id", "phase", "seconds", "kind", "reason"]
FAILED_COLUMNS = ["case_id", "title", "trial", "class", "reason", "rank", "log_tail", "stacks", "reproduce"]
RETRIED_COLUMNS = ["case_id", "title", "trial", "class", "reason", "rank", "ended"]
PRUNED_COLUMNS = ["case_id", "title", "reason"]


class KindError(ValueError):
    """A quantity that does not say whether it was measured, derived, simulated or published is not shown at all."""


def checked(quantity: Quantity, where: str) -> Quantity:
    """`quantity`, or KindError where its kind is missing or not one of the four."""
    kind = getattr(quantity, "kind", None)
    if kind not in KINDS:
        raise KindError(f"{where} has no kind (got {kind!r}; allowed: {', '.join(KINDS)}): it cannot be reported")
    return quantity


def case_of(axes: Mapping[str, Any]) -> Case:
    """The case that a document names; its axes at their defaults may be left out."""
    return Case.model_validate(dict(axes))


def line_of(case: Case, record: Record | None = None) -> str:
    """Strategy, and how gradients travel where that is not the default: the name of a line in a chart.

    An exchange that chose for itself (see `record`) stands with what it chose: only equal ones make one line.
    """
    axes = case.axes()
    chosen = record.effective.get("resolved") if record else None
    if chosen:
        axes["exchange"] = f"{case.exchange} = {chosen}"
    rest = [f"{name} {text.word(axes[name])}" for name in LINE_AXES[1:] if name in axes]
    return ", ".join([case.strategy, *rest])


def other_of(case: Case) -> str:
    """Every axis off its default that has no place of its own, as `key=value`."""
    axes = {key: value for key, value in case.axes().items() if key not in NAMED_AXES}
    if case.scaling != "accumulated" and case.micro_batches > 1:
        axes["accumulation"] = case.micro_batches
    if case.topology is not None and case.topology.name:
        axes["topology"] = case.topology.name
    return " ".join(f"{key}={text.word(value)}" for key, value in axes.items())


def cases(run: Run) -> pd.DataFrame:
    """One row a case with a result, in the order of the run. `batch` is the one that the scaling mode keeps fixed."""
    records = {record.id: record for record in run.records}
    rows = [_case_row(result, next((records[n] for n in result.trials if n in records), None)) for result in run.cases]
    return pd.DataFrame(rows, columns=CASE_COLUMNS)


def math_of(case: Case, record: Record | None) -> str:
    """What matrix products were really computed as, where that is known and not what was asked for; else ""."""
    math = record.effective.get("math") if record else None
    return "" if math in (None, MATH[case.precision]) else f"computed as {math}"


def _case_row(result: CaseResult, record: Record | None) -> dict[str, Any]:
    case = case_of(result.case)
    return {
        "case_id": result.case_id,
        "title": case.title,
        "workload": case.workload,
        "preset": case.preset,
        "strategy": case.strategy,
        "devices": case.devices,
        "hosts": case.hosts,
        "scaling": case.scaling,
        "batch": case.micro_batch if case.scaling == "weak" else case.step_batch,
        "micro_batch": case.micro_batch,
        "step_batch": case.step_batch,
        "precision": case.precision,
        "xla": case.xla,
        "math": math_of(case, record),
        "line": line_of(case, record),
        "other": other_of(case),
        "status": result.validity.status,
        "trials": len(result.trials),
    }


def quantities(run: Run) -> pd.DataFrame:
    """One row a case and quantity, over the case's trials; `value` is NaN where `reason` says why."""
    rows = [
        quantity_row(result.case_id, name, quantity)
        for result in run.cases
        for name, quantity in result.quantities.items()
    ]
    return pd.DataFrame(rows, columns=QUANTITY_COLUMNS).astype({"value": float, "low": float, "high": float})


def quantity_row(case_id: str, name: str, quantity: Quantity) -> dict[str, Any]:
    checked(quantity, f"{name} of case {case_id}")
    low, high = quantity.ci95 or (None, None)
    return {
        "case_id": case_id,
        "name": name,
        "value": quantity.value,
        "unit": quantity.unit,
        "kind": quantity.kind,
        "statistic": quantity.statistic,
        "low": low,
        "high": high,
        "ci_method": quantity.ci_method or "",
        "scope": quantity.scope,
        "n_trials": quantity.n_trials,
        "n_samples": quantity.n_samples,
        "reason": quantity.reason or "",
    }


def trials(run: Run) -> pd.DataFrame:
    """One row a trial: its steady-state class and window (blocks), its levels, and what its loss did."""
    return pd.DataFrame([_trial_row(record) for record in run.records], columns=TRIAL_COLUMNS)


def _trial_row(record: Record) -> dict[str, Any]:
    case = case_of(record.case)
    step_time = record.quantities.get("step_time")
    if step_time is not None:
        checked(step_time, f"step_time of record {record.id}")
    return {
        "record_id": record.id,
        "case_id": record.case_id,
        "title": case.title,
        "workload": case.workload,
        "preset": case.preset,
        "trial": record.trial,
        "created": record.created,
        "status": record.validity.status,
        "class": record.steady.classification,
        "start": record.steady.start,
        "stop": record.steady.stop,
        "levels": [(level.start, level.stop, level.mean) for level in record.steady.levels],
        "step_time": None if step_time is None else step_time.value,
        "kind": None if step_time is None else step_time.kind,
        "loss": record.loss.get("verdict", "unknown"),
    }


def phases(run: Run) -> pd.DataFrame:
    """One row a phase of the first trial of each case, in seconds, in the order in which a rank passes them."""
    rows = [row for record in first_trials(run.records) for row in _phase_rows(record)]
    return pd.DataFrame(rows, columns=PHASE_COLUMNS).astype({"seconds": float})


def first_trials(records: Iterable[Record]) -> list[Record]:
    """The first trial of each case, in the order of the run."""
    first: dict[str, Record] = {}
    for record in records:
        if record.case_id not in first or record.trial < first[record.case_id].trial:
            first[record.case_id] = record
    return list(first.values())


def _phase_rows(record: Record) -> list[dict[str, Any]]:
    case = case_of(record.case)
    head = {"case_id": record.case_id, "title": case.title, "workload": case.workload, "preset": case.preset}
    return [
        head
        | {
            "record_id": record.id,
            "phase": name,
            "seconds": quantity.value,
            "kind": checked(quantity, f"phase {name} of record {record.id}").kind,
            "reason": quantity.reason,
        }
        for name, quantity in record.phases.items()
    ]


def failed(run: Run) -> pd.DataFrame:
    """One row a case that ended without a result."""
    rows = [
        {
            "case_id": failure.case_id,
            "title": case_of(failure.case).title,
            "trial": failure.trial,
            "class": failure.classification,
            "reason": failure.reason,
            "rank": failure.rank,
            "log_tail": failure.log_tail,
            "stacks": failure.stacks or "",
            "reproduce": failure.reproduce,
        }
        for failure in run.failed
    ]
    return pd.DataFrame(rows, columns=FAILED_COLUMNS).astype({"rank": "Int64"})


def retried(run: Run) -> pd.DataFrame:
    """One row a launch that failed and was tried again; `ended`: whether its trial has a result after all."""
    documents: tuple[Record | Failure, ...] = (*run.records, *run.failed)
    rows = [
        {
            "case_id": document.case_id,
            "title": case_of(document.case).title,
            "trial": document.trial,
            "class": retry.classification,
            "reason": retry.reason,
            "rank": retry.rank,
            "ended": "result" if isinstance(document, Record) else "failed",
        }
        for document in documents
        for retry in document.retries
    ]
    return pd.DataFrame(rows, columns=RETRIED_COLUMNS).astype({"rank": "Int64"})


def pruned(run: Run) -> pd.DataFrame:
    """One row a case that was left out before the run, with the reason."""
    rows = [
        {"case_id": case.id, "title": case.title, "reason": entry.reason}
        for entry in run.pruned
        for case in [case_of(entry.case)]
    ]
    return pd.DataFrame(rows, columns=PRUNED_COLUMNS)
