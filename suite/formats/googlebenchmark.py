"""Google benchmark's JSON: what compare.py, github-action-benchmark and Bencher read, and what C++ benchmarks write.

Format: docs/user_guide.md and src/json_reporter.cc of github.com/google/benchmark. This is the export; googlerows.py
reads.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tfscale.suite.display import DEFAULTS, brief
from tfscale.suite.formats import googlerows
from tfscale.suite.formats.base import Format, Results, Written
from tfscale.suite.formats.googlerows import OURS
from tfscale.suite.formats.openmetrics import unit_of
from tfscale.suite.record import Record

NO_CPU_TIME = "a CPU time (none is measured; readers demand one, so cpu_time repeats real_time)"


def write(results: Results) -> Written:
    """One row a trial of the newest run: real_time is the mean step time, every other known quantity is a counter."""
    run = results.run.run
    counters = _counters(run.records)
    by_case: dict[str, list[Record]] = {}
    for record in run.records:
        by_case.setdefault(record.case_id, []).append(record)
    rows = [
        _row(record, family, index, len(trials), counters)
        for family, trials in enumerate(by_case.values())
        for index, record in enumerate(trials)
    ]
    context = {
        "date": run.created,
        "host_name": run.environment.get("host"),
        "executable": "tfscale",
        "num_cpus": (run.environment.get("cpu") or {}).get("threads"),
        "load_avg": run.environment.get("load_average"),
        "json_schema_version": 1,
    }
    known = {key: value for key, value in context.items() if value is not None}
    known[OURS] = {"run": run.run, "counters": counters}
    document = {"context": known, "benchmarks": [row for row in rows if row is not None]}
    without = sum(row is None for row in rows)
    lost = [f"{without} trials whose step time is unknown"] if without else []
    return Written({"": json.dumps(document, indent=2, allow_nan=False).encode() + b"\n"}, run.records, tuple(lost))


def _counters(records: Sequence[Record]) -> dict[str, dict[str, str]]:
    """Counter -> the quantity's name, unit and kind. Where cases differ in these, each way is a counter of its own."""
    ways: dict[str, dict[tuple[str, str], None]] = {}
    for record in records:
        for name, quantity in record.quantities.items():
            if name != "step_time" and quantity.value is not None:
                ways.setdefault(name, {})[quantity.unit, quantity.kind] = None
    found = {}
    for name, known in ways.items():
        kinds = len({kind for _, kind in known}) > 1
        for unit, kind in known:
            counter = name if len(known) == 1 else f"{name}_{unit_of(unit)}{f'_{kind}' if kinds else ''}"
            found[counter] = {"quantity": name, "unit": unit, "kind": kind}
    return found


def _values(record: Record, counters: Mapping[str, Mapping[str, str]]) -> dict[str, float | None]:
    found = {}
    for counter, way in counters.items():
        quantity = record.quantities.get(way["quantity"])
        if quantity is not None and (quantity.unit, quantity.kind) == (way["unit"], way["kind"]):
            found[counter] = quantity.value
    return found


def name_of(record: Record) -> str:
    """The same in every run, so that a case is found again in the next export."""
    case = {**DEFAULTS, **record.case}
    head = "/".join(str(case.get(axis)) for axis in ("workload", "preset", "strategy"))
    return f"{head}/devices:{case.get('devices')}/case:{record.case_id}"


def _row(
    record: Record, family: int, index: int, repetitions: int, counters: Mapping[str, Mapping[str, str]]
) -> dict[str, Any] | None:
    step = record.quantities.get("step_time")
    if step is None or step.value is None:
        return None
    row: dict[str, Any] = {
        "name": name_of(record),
        "family_index": family,
        "per_family_instance_index": 0,
        "run_name": name_of(record),
        "run_type": "iteration",
        "repetitions": repetitions,
        "repetition_index": index,
        "threads": 1,
        "iterations": record.counts.get("steps"),
        "real_time": step.value * 1e9,
        "cpu_time": step.value * 1e9,
        "time_unit": "ns",
        "label": f"{record.validity.status}: {brief(record.case)}",
        "tfscale_kind": step.kind,
    }
    return {key: value for key, value in {**row, **_values(record, counters)}.items() if value is not None}


def _recognise(begin: bytes) -> bool:
    return begin.lstrip().startswith(b"{") and b'"context"' in begin


FORMAT = Format(
    "Google benchmark JSON, one row a trial",
    write=write,
    loses=(
        "intervals",
        "statistics",
        "unknown quantities and their reasons",
        "phases",
        "checks but the verdict",
        "blocks",
        "monitors",
        NO_CPU_TIME,
    ),
    recognise=_recognise,
    read=googlerows.read,
)
