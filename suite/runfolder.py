"""The results folder: where everything of a run lies, and how it gets there whole or not at all.

DIR/<run>/suite.yaml environment.json run.json
DIR/<run>/<case id>/<trial>/record.json blocks.npz rank<r>/...     or failure.json in place of record.json
DIR/<run>/<case id>/profile/rank<r>/plugins/profile/...
DIR/<run>/<case id>/decided.json pilot/rank<r>/pilot.json       where the case left a number to a pilot launch
DIR/<run>/curves/<case id>/curve.json rank0/losses.npz                 or failure.json in place of curve.json
DIR/<run>/recovery/<case id>/recovery.json <training>/launch<n>/rank<r>/...    or failure.json in place of recovery.json
"""

import datetime
import json
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tfscale.suite.rankfiles import TEMPORARY, write_atomic
from tfscale.suite.record import Curve, Failure, Record, RecoveryResult, Run

RECORD = "record.json"
FAILURE = "failure.json"
CURVE = "curve.json"
CURVES = "curves"
"""Folder of a run that holds the trainings to a target loss, one folder a case and seed."""
RECOVERY = "recovery.json"
RECOVERIES = "recovery"
"""Folder of a run that holds the scenario `recovery`, one folder a case."""
RUN = "run.json"
SUITE = "suite.yaml"
ENVIRONMENT = "environment.json"
PILOT = "pilot"
"""The case's folder of a launch that decides what the case leaves open."""
PROFILE = "profile"
"""Name of a record's file entry, and of the case's folder, that hold the profiled pass."""


class StoreError(ValueError):
    """A results path that cannot be used; the message says what is there and what was expected."""


@dataclass(frozen=True)
class RunFolder:
    """One run's folder."""

    path: Path

    @property
    def run(self) -> str:
        return self.path.name

    @classmethod
    def create(cls, results: Path, suite_text: str, environment: dict[str, Any]) -> "RunFolder":
        """A new run folder under `results`, with the suite as the user wrote it and the machine as it is."""
        results.mkdir(parents=True, exist_ok=True)
        while True:
            folder = cls(results / new_run_id())
            try:
                folder.path.mkdir()
                break
            except FileExistsError:  # another run began in this very millisecond
                continue
        write_atomic(folder.path / ENVIRONMENT, _json(environment))
        write_atomic(folder.path / SUITE, suite_text.encode())
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """The run at `path`, or the latest run where `path` is a results folder. Raises StoreError."""
        found = path if (path / SUITE).is_file() else latest_run(path)
        if found is None:
            raise StoreError(f"{path} is no run folder and holds none (a run folder has a {SUITE})")
        return cls(found)

    def environment(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.path / ENVIRONMENT).read_bytes())
        return loaded

    def created(self) -> str:
        """When the run began: from run.json where it went on before, else now."""
        try:
            return str(json.loads((self.path / RUN).read_bytes())["created"])
        except (OSError, ValueError, KeyError, TypeError):  # none yet, or damaged: the records do not depend on it
            return utc_now()

    def remove_leftovers(self) -> None:
        """Remove the temporary files of writes that were interrupted; only when no other harness writes here."""
        for path in (*self.path.rglob(f".*{TEMPORARY}"), *self.path.glob(".probe*")):
            path.unlink(missing_ok=True)

    def trial(self, case_id: str, trial: int) -> Path:
        return self.path / case_id / str(trial)

    def profile(self, case_id: str) -> Path:
        return self.path / case_id / PROFILE

    def case(self, case_id: str) -> Path:
        return self.path / case_id

    def pilot(self, case_id: str) -> Path:
        return self.path / case_id / PILOT

    def write_record(self, record: Record) -> Path:
        """Put a record in its place, over an older one of the same trial; an older failure goes."""
        folder = self.trial(record.case_id, record.trial)
        write_atomic(folder / RECORD, dump(record))
        (folder / FAILURE).unlink(missing_ok=True)
        return folder / RECORD

    def write_failure(self, failure: Failure) -> Path:
        path = self.trial(failure.case_id, failure.trial) / FAILURE
        write_atomic(path, dump(failure))
        return path

    def curve(self, case_id: str) -> Path:
        """Folder of a training to a target loss; the id is that of the case with its seed."""
        return self.path / CURVES / case_id

    def write_curve(self, curve: Curve | Failure) -> Path:
        path = self.curve(curve.case_id) / (CURVE if isinstance(curve, Curve) else FAILURE)
        write_atomic(path, dump(curve))
        return path

    def recovery(self, case_id: str) -> Path:
        """Folder of a case's scenario `recovery`."""
        return self.path / RECOVERIES / case_id

    def write_recovery(self, result: RecoveryResult | Failure) -> Path:
        """Put the document of a recovery in its place; an older failure goes."""
        folder = self.recovery(result.case_id)
        if isinstance(result, Failure):
            write_atomic(folder / FAILURE, dump(result))
            return folder / FAILURE
        write_atomic(folder / RECOVERY, dump(result))
        (folder / FAILURE).unlink(missing_ok=True)
        return folder / RECOVERY

    def write_run(self, run: Run) -> Path:
        write_atomic(self.path / RUN, dump(run))
        return self.path / RUN

    def clear(self, case_id: str, trial: int) -> Path:
        """The empty folder of a trial that is about to run: what an interrupted one left would be mistaken for news."""
        folder = self.trial(case_id, trial)
        return empty(folder)


def empty(folder: Path) -> Path:
    """`folder`, emptied or made."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def record_id(run: str, case_id: str, trial: int) -> str:
    return f"{run}/{case_id}/{trial}"


def new_run_id(now: datetime.datetime | None = None) -> str:
    """An id that sorts by time: UTC to the millisecond, and two random bytes."""
    at = now or datetime.datetime.now(datetime.UTC)
    return f"{at:%Y%m%dT%H%M%S}{at.microsecond // 1000:03d}Z-{secrets.token_hex(2)}"


def utc_now() -> str:
    """Now in UTC, ISO 8601 to the millisecond."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def runs_of(results: Path) -> list[Path]:
    """The run folders under `results`, oldest first."""
    if not results.is_dir():
        return []
    return sorted((path for path in results.iterdir() if (path / SUITE).is_file()), key=lambda path: path.name)


def latest_run(results: Path) -> Path | None:
    """The newest run folder under `results`, None where there is none."""
    return next(reversed(runs_of(results)), None)


def dump(document: BaseModel) -> bytes:
    """A document as JSON under its schema's names."""
    return document.model_dump_json(by_alias=True, indent=1).encode() + b"\n"


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=1, default=str).encode() + b"\n"
