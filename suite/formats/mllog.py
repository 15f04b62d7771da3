"""MLPerf's `:::MLLOG` lines: what mlperf-logging's parsers read, and what training submissions leave.

Format: mlperf_logging/mllog of github.com/mlcommons/logging. A line may carry any prefix, such as `0: ` of a launcher.
"""

import datetime
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tfscale.suite.formats.base import Format, Given, Read, Results, Written, json_of, number_of, text_of
from tfscale.suite.formats.forms import Imported, ImportedRow
from tfscale.suite.record import Quantity, Record

TOKEN = ":::MLLOG "
_OLD = ":::MLPv"
_KEYS = ("time_ms", "event_type", "key", "value", "metadata")
NO_STAMPS = "the stamps of start and stop (run_stop is when the record was made, run_start that less steps x step time)"
NOT_COMPLIANT = "a submission: nothing is trained to a target, so run_stop has no status and there is no eval_accuracy"


def write(results: Results) -> Written:
    """Of each trial of the newest run, under a namespace of its own: batch, start, throughput, stop."""
    run = results.run.run
    lines = [line for record in run.records for line in _lines(record)]
    return Written({"": "".join(f"{TOKEN}{json.dumps(line)}\n" for line in lines).encode()}, run.records)


def _lines(record: Record) -> Iterator[dict[str, Any]]:
    stop = _milliseconds(record.created)
    steps, step = record.counts.get("steps"), record.quantities.get("step_time")
    start = stop - round(steps * step.value * 1e3) if steps is not None and step and step.value is not None else stop
    about = {"run": record.run, "case_id": record.case_id, "trial": record.trial, "validity": record.validity.status}

    def line(time_ms: int, event: str, key: str, value: Any, **metadata: Any) -> dict[str, Any]:
        space = f"{record.case_id}/{record.trial}"
        return {
            "namespace": space,
            "time_ms": time_ms,
            "event_type": event,
            "key": key,
            "value": value,
            "metadata": {**about, **metadata},
        }

    batch, throughput = (record.quantities.get(name) for name in ("global_batch", "throughput"))
    if batch is not None and batch.value is not None:
        whole = int(batch.value) if batch.value.is_integer() else batch.value
        yield line(start, "POINT_IN_TIME", "global_batch_size", whole, unit=batch.unit, kind=batch.kind)
    yield line(start, "INTERVAL_START", "run_start", None, case=record.case)
    if throughput is not None and throughput.value is not None:
        value = {"throughput": throughput.value}
        yield line(
            stop, "POINT_IN_TIME", "tracked_stats", value, step=steps, unit=throughput.unit, kind=throughput.kind
        )
    yield line(stop, "INTERVAL_END", "run_stop", None)


def _milliseconds(created: str) -> int:
    return round(datetime.datetime.fromisoformat(created).timestamp() * 1e3)


@dataclass
class _Run:
    """One run of one namespace while its lines go by."""

    start_ms: float | None = None
    labels: dict[str, str] = field(default_factory=dict)
    quantities: dict[str, Quantity] = field(default_factory=dict)


def read(given: Given) -> Read:
    """A row a run (its length, batch and labels) and a row each `tracked_stats`. Raises FormatError naming the line."""
    text = text_of(given)
    events = [(number, _event(given, number, line)) for number, line in enumerate(text.split("\n"), 1) if TOKEN in line]
    if not events:
        old = f"; the lines of MLPerf v0.5 ({_OLD}...) are not read" if _OLD in text else ""
        raise given.fail(f"no {TOKEN.strip()} line in it{old}")
    runs: dict[str, _Run] = {}
    rows: list[ImportedRow] = []
    left = set()
    for number, event in events:
        space = str(event.get("namespace") or "")
        run = runs.setdefault(space, _Run())
        try:
            if event["key"] == "tracked_stats":
                rows.append(_stats(space, event))
            elif not _take(run, space, event, rows, runs):
                left.add(str(event["key"]))
        except (ValueError, AttributeError) as error:
            raise given.fail(f"{event['key']}: {error}", number) from error
    rows += [
        ImportedRow(name="run", labels=run.labels, quantities=run.quantities) for run in runs.values() if run.quantities
    ]
    if not rows:
        raise given.fail("neither a run_start with its run_stop nor tracked_stats in it")
    lost = (f"keys without a number that is kept: {', '.join(sorted(left))}",) if left else ()
    document = Imported(origin=given.origin, rows=tuple(rows), lost=lost)
    return Read({"imported.json": document}, len(rows), lost)


def _event(given: Given, number: int, line: str) -> dict[str, Any]:
    try:
        event = json_of(line[line.rindex(TOKEN) + len(TOKEN) :])
    except ValueError as error:
        raise given.fail(f"not JSON after {TOKEN.strip()}: {error}", number) from error
    absent = [key for key in _KEYS if key not in event] if isinstance(event, dict) else list(_KEYS)
    if absent:
        raise given.fail(f"no {', '.join(absent)} in the event", number)
    found: dict[str, Any] = event
    return found


def _take(run: _Run, space: str, event: dict[str, Any], rows: list[ImportedRow], runs: dict[str, _Run]) -> bool:
    """Whether the event's number or text is kept."""
    key, value, metadata = event["key"], event["value"], event["metadata"] or {}
    if key == "run_start":
        run.start_ms = number_of(event["time_ms"])
        run.labels["namespace"] = space
    elif key == "run_stop" and run.start_ms is not None:
        seconds = (number_of(event["time_ms"]) - run.start_ms) / 1e3
        run.quantities["run_time"] = Quantity(
            value=seconds, unit="s", kind="measured", statistic="run_start to run_stop"
        )
        run.labels |= {k: str(metadata[k]) for k in ("status", "case_id", "trial", "validity") if k in metadata}
        rows.append(ImportedRow(name="run", labels=run.labels, quantities=run.quantities))
        runs[space] = _Run()
    elif key == "global_batch_size":
        run.quantities["global_batch"] = _quantity(value, metadata, "samples", "as logged")
    elif key.startswith("submission_") or key == "seed":
        run.labels[key] = str(value)
    else:
        return False
    return True


def _stats(space: str, event: dict[str, Any]) -> ImportedRow:
    value, metadata = event["value"], event["metadata"] or {}
    if not isinstance(value, dict):
        raise ValueError("an object of name: number is expected")
    labels = {
        key: str(metadata[key]) for key in ("step", "epoch_num", "case_id", "trial") if metadata.get(key) is not None
    }
    return ImportedRow(
        name="tracked_stats",
        labels={"namespace": space, "time_ms": str(event["time_ms"]), **labels},
        quantities={
            name: _quantity(number, metadata, "samples/s" if name == "throughput" else "", "as logged")
            for name, number in value.items()
        },
    )


def _quantity(value: Any, metadata: dict[str, Any], unit: str, statistic: str) -> Quantity:
    return Quantity.model_validate(
        {
            "value": number_of(value),
            "unit": metadata.get("unit", unit),
            "kind": metadata.get("kind", "measured"),
            "statistic": statistic,
        }
    )


FORMAT = Format(
    "MLPerf :::MLLOG lines, a namespace a trial of the newest run",
    write=write,
    loses=("all quantities but throughput and global batch", "intervals", "phases", "checks but the verdict", "blocks",
           "monitors", "failures", NO_STAMPS, NOT_COMPLIANT),
    recognise=lambda begin: TOKEN.encode() in begin,
    read=read,
)  # fmt: skip
