"""Reads what runs have left. Whatever is half-written or foreign is reported and skipped, never a crash.

Wherever a command takes RESULTS, a results folder, one run folder, a case's or trial's folder, or one record will do.
Writing is in runfolder.py, the query over all records in history.py.
"""

import json
import os
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from tfscale.suite.caseresult import case_results
from tfscale.suite.migrate import SchemaError, migrate
from tfscale.suite.rankfiles import BLOCKS, read_arrays
from tfscale.suite.record import (
    CURVE_SCHEMA,
    RECORD_SCHEMA,
    RECOVERY_SCHEMA,
    RUN_SCHEMA,
    Curve,
    Failure,
    Record,
    RecoveryResult,
    Run,
)
from tfscale.suite.runfolder import CURVE, FAILURE, PROFILE, RECORD, RECOVERY, RUN, RunFolder, StoreError
from tfscale.suite.spec import Case
from tfscale.suite.timing.series import series_of_ranks

Model = TypeVar("Model", bound=BaseModel)


class UnreadableError(ValueError):
    """A file that is not a whole document of ours; the message names it and says what is wrong."""


@dataclass
class Found:
    """What lies under a results path, in the order of runs, cases (as they were run) and trials."""

    records: list[Record] = field(default_factory=list)
    folders: dict[str, Path] = field(default_factory=dict)
    """Record id -> the folder that the record's `files` are relative to."""
    failures: list[Failure] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    recoveries: list[RecoveryResult] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """Every file that was skipped, with the reason."""


@dataclass
class LoadedRun:
    """One run as a document, and the block arrays of its records (record id -> name -> array)."""

    run: Run
    folder: Path
    blocks: dict[str, dict[str, NDArray[Any]]]
    warnings: list[str]
    folders: dict[str, Path] = field(default_factory=dict)
    """Record id -> the folder that the record's `files` are relative to."""


def read_record(path: Path) -> Record:
    """The record in the file `path`. Raises UnreadableError."""
    return _read(path, Record, RECORD_SCHEMA)


def find_records(path: Path) -> Found:
    """Everything under `path`. Raises StoreError when it does not exist."""
    if not path.exists():
        raise StoreError(f"{path} does not exist (a results folder, a run folder or a {RECORD} is expected)")
    found = Found()
    for file in [path] if path.is_file() else _documents(path):
        try:
            _take(file, found)
        except UnreadableError as error:
            found.warnings.append(str(error))
    begun: dict[tuple[str, str], str] = {}
    for record in found.records:
        case = (record.run, record.case_id)
        begun[case] = min(record.created, begun.get(case, record.created))
    found.curves.sort(key=lambda curve: (curve.run, curve.seed, curve.created, curve.case_id))
    found.recoveries.sort(key=lambda one: (one.run, one.created, one.case_id))
    found.records.sort(key=lambda r: (r.run, begun[r.run, r.case_id], r.case_id, r.trial))
    return found


def _take(file: Path, found: Found) -> None:
    if file.name == FAILURE:
        found.failures.append(_read(file, Failure, None))
    elif file.name == CURVE:
        found.curves.append(_read(file, Curve, CURVE_SCHEMA))
    elif file.name == RECOVERY:
        found.recoveries.append(_read(file, RecoveryResult, RECOVERY_SCHEMA))
    elif file.name.endswith(".tmp"):
        found.warnings.append(f"{file}: left over from a write that was interrupted")
    else:
        record = read_record(file)
        try:
            Case.model_validate(record.case)
        except ValidationError as error:
            raise UnreadableError(f"{file}: a case that this version does not know: {_first(error)}") from error
        found.records.append(record)
        found.folders[record.id] = file.parent


_DOCUMENTS = (RECORD, FAILURE, CURVE, RECOVERY)


def _documents(path: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(path):
        folders[:] = sorted((f for f in folders if f != PROFILE and not f.startswith(("rank", "."))), key=_natural)
        for name in sorted(files):
            temporary = name.startswith(tuple(f".{document}" for document in _DOCUMENTS)) and name.endswith(".tmp")
            if name in _DOCUMENTS or temporary:
                yield Path(folder) / name


def _natural(name: str) -> tuple[bool, int, str]:
    """Trial 10 after trial 9; other names by their letters."""
    return (False, int(name), "") if name.isdecimal() and name.isascii() else (True, 0, name)


def load_run(path: Path) -> LoadedRun:
    """The run at `path` (a run folder, or the newest of a results folder; or the run that one record belongs to).

    Its document is made from the records that are there now: a run that was killed has a run.json without results.
    Raises StoreError where there is no run.
    """
    start = path if path.is_dir() else path.parent
    holder = next((p for p in (start, *start.resolve().parents) if (p / RUN).is_file()), None)
    folder = holder if holder is not None else RunFolder.open(path).path
    found = find_records(path if holder is not None else folder)
    warnings = found.warnings
    run = _stored_run(folder, warnings)
    run = run.model_copy(
        update={
            "cases": tuple(case_results(found.records)),
            "records": tuple(found.records),
            "failed": tuple(found.failures),
            "curves": tuple(found.curves),
            "recoveries": tuple(found.recoveries),
        }
    )
    return LoadedRun(run, folder, _blocks(found, warnings), warnings, found.folders)


def other_runs(folder: Path) -> list[str]:
    """Names of the other runs beside the run folder `folder`, oldest first."""
    return sorted(
        path.name for path in folder.resolve().parent.iterdir() if path != folder.resolve() and (path / RUN).is_file()
    )


def run_before(folder: Path) -> tuple[str, dict[str, Any]] | None:
    """Name and environment of the newest run before the run folder `folder` in the same results; None without one."""
    earlier = [name for name in other_runs(folder) if name < folder.resolve().name]
    if not earlier:
        return None
    try:
        return earlier[-1], RunFolder(folder.resolve().parent / earlier[-1]).environment()
    except (OSError, ValueError):  # that run is damaged, which is not this one's to report
        return None


def _stored_run(folder: Path, warnings: list[str]) -> Run:
    """run.json; where it is missing or damaged, a document that says only what the folder's name does."""
    try:
        return _read(folder / RUN, Run, RUN_SCHEMA)
    except UnreadableError as error:
        warnings.append(f"{error}; the page is made from the records alone")
        return Run(run=folder.name, suite=folder.name, created="unknown", cases=(), records=(), failed=(), pruned=())


def _blocks(found: Found, warnings: list[str]) -> dict[str, dict[str, NDArray[Any]]]:
    blocks = {}
    for record in found.records:
        path = found.folders[record.id] / record.files.get("blocks", BLOCKS)
        try:
            arrays = read_arrays(path)
            series_of_ranks(arrays)
        except (OSError, ValueError, KeyError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            warnings.append(f"{path}: no block times ({type(error).__name__}: {error})")
        else:
            blocks[record.id] = arrays
    return blocks


def _read(path: Path, model: type[Model], schema: str | None) -> Model:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested without end
        raise UnreadableError(f"{path}: half-written or not JSON ({error})") from error
    if not isinstance(document, dict):
        raise UnreadableError(f"{path}: not a JSON object")
    try:
        return model.model_validate(migrate(document, schema) if schema else document)
    except SchemaError as error:
        raise UnreadableError(f"{path}: {error}") from error
    except ValidationError as error:
        raise UnreadableError(f"{path}: not a document of this schema: {_first(error)}") from error


def _first(error: ValidationError) -> str:
    first: Any = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc']) or 'the document'}: {first['msg']}"
