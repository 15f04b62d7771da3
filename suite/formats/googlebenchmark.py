"""Google benchmark's JSON: what compare.py, github-action-benchmark and Bencher read, and what C++ benchmarks write.

Format: docs/user_guide.md and src/json_reporter.cc of github.com/google/benchmark.
"""

import datetime
import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, get_args

from tfscale.suite.display import DEFAULTS, brief
from tfscale.suite.formats.base import Format, Given, Read, Results, Table, Written, json_of, number_of, text_of
from tfscale.suite.formats.forms import Imported, ImportedRow
from tfscale.suite.formats.openmetrics import unit_of
from tfscale.suite.record import Kind, Quantity, Record, unknown

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_TIMES = ("real_time", "cpu_time")
_ROW = {
    "name", "run_name", "run_type", "family_index", "per_family_instance_index", "repetitions", "repetition_index",
    "threads", "iterations", "time_unit", "label", "aggregate_name", "aggregate_unit", "error_occurred",
    "error_message", "skipped", "skip_message", "big_o", "rms", "tfscale_kind", *_TIMES,
}  # fmt: skip
"""Keys that are no counters."""
_LABELS = _ROW - {"name", "run_name", *_TIMES}
_RATES = {"bytes_per_second": "B/s", "items_per_second": "items/s"}
"""Counters that google benchmark itself computes."""
_OURS = "tfscale"
"""Key of the context under which an export keeps the units and kinds of its counters."""
AGGREGATES = "aggregate rows (mean, median, stddev, cv): they follow from the repetitions"
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
    known[_OURS] = {"run": run.run, "counters": counters}
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


def read(given: Given) -> Read:
    """One row of ours a repetition; aggregates are left out unless there is nothing else. Raises FormatError."""
    try:
        document = json_of(text_of(given))
    except ValueError as error:
        raise given.fail(str(error) if given.name in str(error) else f"not JSON: {error}") from error
    listed = document.get("benchmarks") if isinstance(document, dict) else None
    context = document.get("context") if isinstance(document, dict) else None
    if not isinstance(listed, list) or not isinstance(context, dict):
        raise given.fail("not google-benchmark JSON: an object with `context` and a list `benchmarks` is expected")
    ours = context.get(_OURS) if isinstance(context.get(_OURS), dict) else None
    single = [row for row in listed if not (isinstance(row, dict) and row.get("run_type") == "aggregate")]
    chosen = single or [row for row in listed if isinstance(row, dict) and row.get("aggregate_name") == "mean"]
    rows = tuple(_imported(given, place, row, ours) for place, row in enumerate(chosen))
    if not rows:
        raise given.fail("no benchmark in it (run the benchmark without --benchmark_report_aggregates_only)")
    lost = [AGGREGATES] if single and len(single) < len(listed) else []
    origin = given.origin.model_copy(
        update={
            "tool": f"{context.get('executable') or 'unknown'} (google benchmark "
            f"{context.get('library_version') or 'of unknown version'})",
            "made": _utc(context.get("date")),
        }
    )
    if ours is not None:
        origin = origin.model_copy(update={"tool": f"tfscale export of run {ours.get('run')}"})
        lost.append("cpu_time: in this export it only repeats real_time")
    imported = Imported(origin=origin, facts=context, rows=rows, lost=tuple(lost))
    return Read({"imported.json": imported}, len(rows), tuple(lost), points=points, joins=True)


def _imported(given: Given, place: int, row: Any, ours: dict[str, Any] | None) -> ImportedRow:
    where = f"benchmarks[{place}]"
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        raise given.fail(f"{where} is no benchmark: an object with a name is expected")
    where += f" ({row['name'][:80]})"
    described = ours.get("counters") if ours else None
    try:
        return ImportedRow(
            name=str(row.get("run_name") or row["name"]),
            labels={key: _text(value) for key, value in row.items() if key in _LABELS or not _is_number(value)},
            quantities={**_times(row, ours), **_counts(row, described if isinstance(described, dict) else {})},
        )
    except ValueError as error:
        raise given.fail(f"{where}: {error}") from error


def _times(row: dict[str, Any], ours: dict[str, Any] | None) -> dict[str, Quantity]:
    """Seconds of one iteration; of an export of ours the step time under its own name."""
    statistic = "mean over repetitions" if row.get("run_type") == "aggregate" else "mean over iterations"
    if row.get("error_occurred") or row.get("skipped"):
        reason = str(row.get("error_message") or row.get("skip_message") or "the benchmark says that it failed")
        return {"real_time": unknown("s", "measured", statistic, reason)}
    unit = row.get("time_unit", "ns")
    if not isinstance(unit, str) or unit not in _SECONDS:
        raise ValueError(f"time_unit {unit!r} is not one of {', '.join(_SECONDS)}")
    if "real_time" not in row:
        raise ValueError("no real_time")
    names = {"real_time": "step_time"} if ours else {name: name for name in _TIMES if name in row}
    return {
        name: Quantity(
            value=number_of(row[key]) * _SECONDS[unit],
            unit="s",
            kind=_kind(row.get("tfscale_kind")) or "measured",
            statistic=statistic,
            n_samples=row["iterations"] if type(row.get("iterations")) is int else None,
        )
        for key, name in names.items()
    }


def _counts(row: dict[str, Any], described: dict[str, Any]) -> dict[str, Quantity]:
    """User counters: plain numbers, whose unit and kind only an export of ours gives."""
    found = {}
    for name in (name for name, value in row.items() if name not in _ROW and _is_number(value)):
        said = described.get(name)
        way = said if isinstance(said, dict) else {}
        found[str(way.get("quantity", name))] = Quantity(
            value=number_of(row[name]),
            unit=str(way.get("unit", _RATES.get(name, ""))),
            kind=_kind(way.get("kind")) or "measured",
            statistic="counter",
        )
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _kind(text: Any) -> Kind | None:
    return next((kind for kind in get_args(Kind) if kind == text), None)


def _utc(text: Any) -> str | None:
    """A date of any offset in UTC, so that dates sort as text; None for what is no date."""
    try:
        at = datetime.datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return at.astimezone(datetime.UTC).isoformat(timespec="milliseconds")


def points(documents: Sequence[Imported]) -> Table:
    """A line a file, oldest first; a column a benchmark, its mean over repetitions of the first time it has."""
    columns: dict[str, None] = {}
    lines = []
    for document in documents:
        values: dict[str, list[float]] = {}
        for row in document.rows:
            first = next(iter(row.quantities.values()))
            columns[row.name] = None
            if first.value is not None:
                values.setdefault(row.name, []).append(first.value)
        lines.append((document.origin.made or document.origin.imported, values))
    return Table(
        ["date", *columns],
        [[date, *(fmean(values[name]) if name in values else None for name in columns)] for date, values in lines],
    )


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
    read=read,
)
