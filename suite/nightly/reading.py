"""Many records, quickly: only the fields that a history needs, and nothing that is damaged.

`store.find_records` checks every field of every record, which takes minutes for ten thousand. Here a record is decoded
into the few fields below; a file that does not hold them is reported and skipped, as there.
"""

import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tfscale.suite.migrate import migrate
from tfscale.suite.nightly.fingerprint import Machine, machine
from tfscale.suite.record import RECORD_SCHEMA
from tfscale.suite.runfolder import ENVIRONMENT, FAILURE, RECORD, RUN, SUITE, StoreError, runs_of

SOFTWARE = ("driver", "libraries", "packages", "kernel", "python", "tfscale", "directory")
"""Parts of an environment that are drawn as marks on a chart when they change."""
_SAFE = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader, libyaml's where it is built in: there is a suite file for every night."""


class _Quantity(msgspec.Struct):
    value: float | None
    unit: str
    kind: str


class _Validity(msgspec.Struct):
    status: str


class _Record(msgspec.Struct):
    schema: str
    case_id: str
    case: dict[str, Any]
    trial: int
    created: str
    quantities: dict[str, _Quantity]
    validity: _Validity
    environment: msgspec.Raw
    reproduce: str
    effective: dict[str, Any] = {}
    breakdown: dict[str, Any] | None = None


class _Failure(msgspec.Struct):
    case_id: str
    reason: str
    class_: str = msgspec.field(name="class")


class _Ran(msgspec.Struct):
    case_id: str


class _RunDocument(msgspec.Struct):
    """What a run set out to do: the ids of `missing` were planned and did not come to run."""

    cases: list[_Ran] = []
    failed: list[_Ran] = []
    missing: list[str] = []


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What of an environment a history looks at; one object for all records with the same environment."""

    machine: Machine
    node: str
    software: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Trial:
    """One record. `value` is its throughput; None where it has none that may be counted."""

    run: str
    case_id: str
    case: dict[str, Any]
    resolved: str | None
    trial: int
    created: str
    value: float | None
    unit: str
    kind: str
    status: str
    memory: float | None
    """Bytes of the device where it tells, else of the host."""
    parts: dict[str, float] | None
    """Seconds a step, by part; only the trial that was profiled has them."""
    around: Surroundings
    reproduce: str
    path: Path


@dataclass(eq=False)
class RanRun:
    """One run folder: its suite, its machine, and which cases it meant to run (None: not known, take all)."""

    run: str
    path: Path
    suite: str
    around: Surroundings | None = None
    failed: dict[str, str] = field(default_factory=dict)
    """Case id -> class and reason of its last failure."""

    def planned(self) -> set[str] | None:
        """Ids of the cases that the run set out to measure, from its run.json; None where that does not tell."""
        try:
            told = msgspec.json.decode((self.path / RUN).read_bytes(), type=_RunDocument)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return {*(case.case_id for case in (*told.cases, *told.failed)), *told.missing} or None


@dataclass
class History:
    """Everything under a results folder up to the night that is judged, runs oldest first."""

    results: Path
    runs: list[RanRun]
    trials: list[Trial]
    warnings: list[str]


def read(path: Path, suite: str | None = None) -> History:
    """The history at `path`: a results folder, or a run, case or record in one, which is then the last night.

    `suite` keeps the runs of one suite only. Raises StoreError where there is no run.
    """
    results, last = place(path)
    history = History(results, [], [], [])
    reader = _Reader(history)
    for folder in runs_of(results):
        if last is not None and folder.name > last:
            continue
        run = RanRun(folder.name, folder, _suite(folder, history.warnings))
        if suite is None or run.suite == suite:
            history.runs.append(run)
            reader.read(run)
    if not history.runs:
        of = f" of the suite {suite!r}" if suite else ""
        raise StoreError(f"{path} holds no run{of}; `tfscale run SUITE --results {path}` makes one")
    return history


def place(path: Path) -> tuple[Path, str | None]:
    """The results folder of `path`, and the run that it names or lies in. Raises StoreError."""
    if not path.exists():
        raise StoreError(f"{path} does not exist (a results folder, or a run in one, is expected)")
    start = path.resolve() if path.is_dir() else path.resolve().parent
    run = next((p for p in (start, *start.parents) if (p / SUITE).is_file()), None)
    if run is None:
        return path, None
    return run.parent, run.name


def _suite(folder: Path, warnings: list[str]) -> str:
    try:
        with (folder / SUITE).open("rb") as stream:
            name = _SAFE(stream).get_single_data().get("name")
    except (OSError, ValueError, AttributeError, RecursionError, yaml.YAMLError) as error:
        warnings.append(f"{folder / SUITE}: no name of a suite ({type(error).__name__})")
        return ""
    return str(name or "")


class _Reader:
    """Decodes records; environments that are byte for byte the same are decoded once."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._decoder = msgspec.json.Decoder(_Record)
        self._failures = msgspec.json.Decoder(_Failure)
        self._known: dict[bytes, Surroundings] = {}

    def read(self, run: RanRun) -> None:
        for case in _folders(run.path):
            for trial in sorted(_folders(case.path), key=lambda entry: (len(entry.name), entry.name)):
                if trial.name.isdecimal():
                    self._trial(run, trial.path)
        if run.around is None:
            self._without_records(run)

    def _trial(self, run: RanRun, folder: str) -> None:
        path = f"{folder}/{RECORD}"
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - a Path a record costs as much as decoding it
                data = file.read()
        except FileNotFoundError:
            self._failed(run, Path(folder) / FAILURE)
            return
        except OSError as error:
            self._history.warnings.append(f"{path}: {error.strerror}")
            return
        try:
            taken = self._taken(data, run.run, Path(path))
        except (ValueError, RecursionError) as error:  # msgspec's errors and SchemaError are ValueErrors
            self._history.warnings.append(f"{path}: half-written or not a record ({error})")
            return
        run.around = taken.around
        self._history.trials.append(taken)

    def _taken(self, data: bytes, run: str, path: Path) -> Trial:
        record = self._decoder.decode(data)
        if record.schema != RECORD_SCHEMA:
            record = msgspec.convert(migrate(json.loads(data), RECORD_SCHEMA), _Record)
        if not record.case_id:
            raise ValueError("it does not say which case it is of")
        throughput = record.quantities.get("throughput")
        value = throughput.value if throughput is not None else None
        usable = value is not None and math.isfinite(value) and value > 0 and record.validity.status != "INVALID"
        return Trial(
            run=run,
            case_id=record.case_id,
            case=record.case,
            resolved=record.effective.get("resolved"),
            trial=record.trial,
            created=record.created,
            value=value if usable else None,
            unit=throughput.unit if throughput is not None else "",
            kind=throughput.kind if throughput is not None else "measured",
            status=record.validity.status,
            memory=_memory(record.quantities),
            parts=_parts(record.breakdown, record.quantities.get("step_time")),
            around=self._around(bytes(record.environment)),
            reproduce=record.reproduce,
            path=path,
        )

    def _around(self, raw: bytes) -> Surroundings:
        known = self._known.get(raw)
        if known is None:
            known = self._known[raw] = surroundings(msgspec.json.decode(raw, type=dict[str, Any]))
        return known

    def _failed(self, run: RanRun, path: Path) -> None:
        try:
            failure = self._failures.decode(path.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            self._history.warnings.append(f"{path}: half-written or not a failure ({error})")
            return
        run.failed[failure.case_id] = f"{failure.class_}: {failure.reason}"

    def _without_records(self, run: RanRun) -> None:
        """A run of which nothing came: its own environment says which machine it was to be on."""
        try:
            run.around = self._around((run.path / ENVIRONMENT).read_bytes())
        except (OSError, ValueError) as error:
            self._history.warnings.append(f"{run.path}: neither a record nor an environment ({error})")


def surroundings(environment: dict[str, Any]) -> Surroundings:
    """The part of an environment that a history looks at."""
    software = {part: environment[part] for part in SOFTWARE if environment.get(part) is not None}
    return Surroundings(machine(environment), str(environment.get("host") or ""), software)


def _folders(path: str | Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(path) as entries:
            return sorted((e for e in entries if not e.name.startswith(".") and e.is_dir()), key=lambda e: e.name)
    except OSError:  # gone between two looks, or not ours to read: nothing in it can be taken
        return []


def _memory(quantities: dict[str, _Quantity]) -> float | None:
    for name in ("memory_peak_device", "memory_peak_host"):
        quantity = quantities.get(name)
        if quantity is not None and quantity.value is not None:
            return quantity.value
    return None


def _parts(breakdown: dict[str, Any] | None, step_time: _Quantity | None) -> dict[str, float] | None:
    """Seconds of each part, as shares of the profiled step times the timed step: the profiler's own cost cancels."""
    if not breakdown or step_time is None or not step_time.value:
        return None
    span, parts = breakdown.get("span_ps"), breakdown.get("parts")
    if not isinstance(span, int) or span <= 0 or not isinstance(parts, dict):
        return None
    return {name: value / span * step_time.value for name, value in parts.items() if isinstance(value, int)}
