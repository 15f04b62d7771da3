"""The rows of google benchmark's JSON as rows of ours, and as one point of a series a file."""

import datetime
import json
from collections.abc import Sequence
from statistics import fmean
from typing import Any, get_args

from tfscale.suite.formats.base import Given, Read, Table, json_of, number_of, text_of
from tfscale.suite.formats.forms import Imported, ImportedRow
from tfscale.suite.record import Kind, Quantity, unknown

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
OURS = "tfscale"
"""Key of the context under which an export keeps the units and kinds of its counters."""
AGGREGATES = "aggregate rows (mean, median, stddev, cv): they follow from the repetitions"


def read(given: Given) -> Read:
    """One row of ours a repetition; aggregates are left out unless there is nothing else. Raises FormatError."""
    text = text_of(given)
    try:
        document = json_of(text)
    except ValueError as error:
        raise given.fail(f"not JSON: {error}") from error
    listed = document.get("benchmarks") if isinstance(document, dict) else None
    context = document.get("context") if isinstance(document, dict) else None
    if not isinstance(listed, list) or not isinstance(context, dict):
        raise given.fail("not google-benchmark JSON: an object with `context` and a list `benchmarks` is expected")
    ours = context.get(OURS) if isinstance(context.get(OURS), dict) else None
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
