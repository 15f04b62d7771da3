"""Scaling efficiency of every case against every baseline that the run holds, by suite.analysis.scaling."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tfscale.reports import frames
from tfscale.suite.analysis.scaling import MixedCurveError, ThroughputPoint, efficiency
from tfscale.suite.record import CaseResult, Quantity, Record, Run, unknown
from tfscale.suite.spec import Case

COLUMNS = ["case_id", "baseline", "baseline_id", "value", "low", "high", "kind", "scope", "ci_method", "reason"]
ITSELF = "this case is the baseline"


@dataclass(frozen=True)
class Point:
    """A case with its place on a curve."""

    result: CaseResult
    case: Case
    point: ThroughputPoint

    @property
    def usable(self) -> bool:
        return self.result.validity.status != "INVALID"


def efficiencies(run: Run) -> pd.DataFrame:
    """One row a case and baseline: value and interval, or NaN with the reason. INVALID cases have and make none."""
    points = points_of(run)
    rows = [
        _row(point.result.case_id, name, *_against(name, point, candidates))
        for point in points
        for name, candidates in (
            ("one_device", _one_device(points)),
            ("one_node", _one_node(point, points)),
            ("independent", _independent(point, points)),
        )
    ]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"value": float, "low": float, "high": float})


def points_of(run: Run) -> list[Point]:
    """Every case of `run` that has a throughput on record."""
    records = {record.id: record for record in run.records}
    made = []
    for result in run.cases:
        throughput = result.quantities.get("throughput")
        if throughput is not None:
            frames.checked(throughput, f"throughput of case {result.case_id}")
            mine = [records[name] for name in result.trials if name in records]
            case = frames.case_of(result.case)
            made.append(Point(result, case, ThroughputPoint(case.devices, throughput, _key(case, mine), _trials(mine))))
    return made


def _trials(records: Iterable[Record]) -> tuple[float, ...]:
    found = [record.quantities["throughput"].value for record in records if "throughput" in record.quantities]
    return tuple(value for value in found if value is not None)


def _key(case: Case, records: Sequence[Record]) -> dict[str, Any]:
    """What must not change along a curve; how gradients travel is one entry, so that a baseline may differ in it."""
    record = records[0] if records else None
    environment = record.environment if record else {}
    cpu = environment.get("cpu")
    gpus = environment.get("gpus")
    return {
        "mode": case.scaling,
        "strategy": case.strategy,
        "workload": case.workload,
        "preset": case.preset,
        "per_replica_batch": None if case.scaling == "strong" else case.micro_batch,
        "global_batch": None if case.scaling == "weak" else case.step_batch,
        "precision": case.precision,
        "effective_math": record.effective.get("math") if record else None,
        "xla": case.xla,
        "exchange": frames.line_of(case, record).partition(", ")[2],
        "other settings": frames.other_of(case),
        "network": case.topology.model_dump_json(exclude={"name"}) if case.topology else None,
        "processor": cpu.get("model") if isinstance(cpu, dict) else None,
        "clock policy": cpu.get("governor") if isinstance(cpu, dict) else None,
        "accelerators": sorted({str(gpu.get("name")) for gpu in gpus if isinstance(gpu, dict)}) if gpus else [],
    }


def _one_device(points: Sequence[Point]) -> list[Point]:
    return [each for each in points if each.case.strategy == "one_device"]


def _one_node(point: Point, points: Sequence[Point]) -> list[Point]:
    """Cases of the same strategy on all devices of one of the point's hosts; mirrored ones after them."""
    per_host = point.case.devices // point.case.hosts
    there = [each for each in points if each.case.hosts == 1 and each.case.devices == per_host > 1]
    return sorted(
        (each for each in there if each.case.strategy in (point.case.strategy, "mirrored")),
        key=lambda each: each.case.strategy != point.case.strategy,
    )


def _independent(point: Point, points: Sequence[Point]) -> list[Point]:
    return [each for each in points if each.case.strategy == "independent" and each.case.devices == point.case.devices]


def _against(name: str, point: Point, candidates: Sequence[Point]) -> tuple[str | None, Quantity]:
    """The first candidate that may be compared with `point`, and the efficiency; else a null with the reason."""
    if not point.usable:
        return None, _none("this case is INVALID")
    if any(candidate is point for candidate in candidates):
        return point.result.case_id, _none(ITSELF)
    if name == "independent" and point.case.devices == 1:
        return None, _none("one device has no other replica beside it")
    if name == "one_node" and point.case.hosts == 1:
        return None, _none("the case runs on one node")
    refused = ""
    for candidate in candidates:
        if any(
            getattr(candidate.case, axis) != getattr(point.case, axis) for axis in ("workload", "preset", "scaling")
        ):
            continue
        try:
            found = efficiency(candidate.point, point.point, mode=point.case.scaling, name=name)
        except MixedCurveError as error:
            refused = refused or str(error)
            continue
        if not candidate.usable:
            return None, _none(f"the {name} case with these settings is INVALID")
        return candidate.result.case_id, found.value
    return None, _none(
        f"the run has no {name} case with these settings" + (f" (nearest: {refused})" if refused else "")
    )


def _none(reason: str) -> Quantity:
    return unknown("1", "derived", "scaling efficiency", reason)


def _row(case_id: str, name: str, baseline_id: str | None, found: Quantity) -> dict[str, Any]:
    low, high = found.ci95 or (None, None)
    return {
        "case_id": case_id,
        "baseline": name,
        "baseline_id": baseline_id or "",
        "value": found.value,
        "low": low,
        "high": high,
        "kind": found.kind,
        "scope": found.scope,
        "ci_method": found.ci_method or "",
        "reason": found.reason or "",
    }
