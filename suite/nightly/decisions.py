"""What people decided about a history: changes they accept, runs they call a baseline. Two files they can read and edit.

`accepted.yaml` and `baselines.yaml` lie in the results folder. They are written whole or not at all.
"""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from tfscale.suite.rankfiles import write_atomic
from tfscale.suite.record import Strict

ACCEPTED = "accepted.yaml"
BASELINES = "baselines.yaml"
_HEADS = {
    ACCEPTED: "# Changes that `tfscale gate` no longer reports; written by `tfscale gate RESULTS --accept CASE --reason T`.\n",
    BASELINES: "# Runs with a name, for `tfscale gate RESULTS --baseline-name NAME`; written by `--save-baseline NAME`.\n",
}  # fmt: skip


class _Decision(Strict):
    model_config = ConfigDict(defer_build=False)


class Accepted(_Decision):
    """One change, or the end of a series, that is meant to be."""

    case_id: str
    title: str
    machine: str
    since: str
    """First run at the new level; of a case that is missing, its last run with a result."""
    level: Annotated[float, Field(gt=0)] | None
    """Throughput that is accepted; worse than this by the minimum effect is reported again. None: missing is accepted."""
    unit: str = ""
    reason: str
    accepted: str


class Baseline(_Decision):
    """A run with a name."""

    run: str
    saved: str


Decision = TypeVar("Decision")


class DecisionsError(ValueError):
    """A file of decisions that cannot be read, or cannot be written; the message names it."""


def accepted(results: Path) -> list[Accepted]:
    """What was accepted, oldest first. Raises DecisionsError."""
    return _read(results / ACCEPTED, TypeAdapter(list[Accepted]), [])


def baselines(results: Path) -> dict[str, Baseline]:
    """Name -> run. Raises DecisionsError."""
    return _read(results / BASELINES, TypeAdapter(dict[str, Baseline]), {})


def accept(results: Path, news: Sequence[Accepted]) -> Path:
    """Add to the accepted changes; an older word on the same change goes. Raises DecisionsError."""
    replaced = {(one.case_id, one.machine, one.since) for one in news}
    kept = [one for one in accepted(results) if (one.case_id, one.machine, one.since) not in replaced]
    return _write(results / ACCEPTED, [one.model_dump() for one in (*kept, *news)])


def save_baseline(results: Path, name: str, run: str) -> Path:
    """Give a run a name, or the name another run. Raises DecisionsError."""
    known = {**baselines(results), name: Baseline(run=run, saved=now())}
    return _write(results / BASELINES, {each: one.model_dump() for each, one in sorted(known.items())})


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _read(path: Path, shape: TypeAdapter[Decision], empty: Decision) -> Decision:
    try:
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return empty
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise DecisionsError(f"{path} cannot be read ({error}); mend it or move it away") from error
    if told is None:
        return empty
    try:
        return shape.validate_python(told)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DecisionsError(f"{path}: {where or 'the file'}: {first['msg']}; mend it or move it away") from error


def _write(path: Path, told: Any) -> Path:
    text = _HEADS[path.name] + yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=120)
    try:
        write_atomic(path, text.encode())
    except OSError as error:
        raise DecisionsError(f"{path} cannot be written: {error.strerror}") from error
    return path
