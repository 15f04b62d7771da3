"""Reads the two results of a comparison: what was measured, on what, and which launches were pairs."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tfscale.suite import only, store
from tfscale.suite.compare.forms import Pairing, Side
from tfscale.suite.rankfiles import write_atomic
from tfscale.suite.record import Curve, Failure, Record
from tfscale.suite.runfolder import RUN, SUITE, StoreError, dump, runs_of
from tfscale.suite.spec import Case

PAIRING = "pairing.json"
"""In the folder of a run of two settings in turn: which launches are pairs."""


@dataclass(frozen=True)
class Loaded:
    """One side: the records of one run, by case in the order they were run in, trials rising."""

    path: Path
    cases: dict[str, list[Record]]
    failures: list[Failure] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pairing: Pairing | None = None

    @property
    def records(self) -> list[Record]:
        return [record for trials in self.cases.values() for record in trials]


def load(path: Path, expression: str | None = None) -> Loaded:
    """What lies at `path`: a run folder, the newest run of a results folder, a case's folder, or one record.

    `expression` keeps the cases that match, as `--only` does. Raises ValueError where nothing is found or kept.
    """
    notes: list[str] = []
    runs = runs_of(path)
    if runs and not (path / SUITE).is_file():
        if len(runs) > 1:
            notes.append(f"{path} holds {len(runs)} runs; the newest, {runs[-1].name}, is compared")
        path = runs[-1]
    found = store.find_records(path)
    notes += [f"skipped: {warning}" for warning in found.warnings]
    if not found.records:
        failed = f" ({len(found.failures)} cases failed)" if found.failures else ""
        raise StoreError(f"no record in {path}{failed}; a results folder, a run folder or a record is expected")
    keep = only.parse(expression) if expression else None
    cases: dict[str, list[Record]] = {}
    for record in found.records:
        if keep is None or keep(Case.model_validate(record.case)):
            cases.setdefault(record.case_id, []).append(record)
    if not cases:
        raise only.OnlyError(f"{expression!r} matches no case of the {len(set(_ids(found.records)))} in {path}")
    failures = [failure for failure in found.failures if keep is None or _kept(failure, keep)]
    return Loaded(path, cases, failures, found.curves, notes, pairing_of(path, notes))


def _ids(records: Sequence[Record]) -> list[str]:
    return [record.case_id for record in records]


def _kept(failure: Failure, keep: Callable[[Case], bool]) -> bool:
    try:
        return keep(Case.model_validate(failure.case))
    except ValidationError:  # a case that this version does not know failed: it matches nothing
        return False


def pairing_of(path: Path, notes: list[str]) -> Pairing | None:
    """The pairing of the run at `path`, None where there is none; a damaged one is a note."""
    file = path / PAIRING
    try:
        return Pairing.model_validate(json.loads(file.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        notes.append(f"skipped: {file}: no pairing can be read ({type(error).__name__}); launches count as unpaired")
        return None


def write_pairing(folder: Path, pairing: Pairing) -> None:
    write_atomic(folder / PAIRING, dump(pairing))


def side(loaded: Loaded, name: str | None = None) -> Side:
    """What is told of a side: its own records, and the system of the first."""
    records = loaded.records
    first = records[0]
    return Side(
        name=name or (loaded.path.name if (loaded.path / RUN).is_file() else first.run),
        path=str(loaded.path),
        run=", ".join(dict.fromkeys(record.run for record in records)),
        created=min(record.created for record in records),
        cases=len(loaded.cases),
        trials=len(records),
        system=system(first.environment),
    )


def system(environment: Mapping[str, Any]) -> dict[str, str | None]:
    """The system in a few lines, as the environment of a record tells it; None where it does not."""

    def at(*path: str) -> Any:
        value: Any = environment
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    cards = at("gpus")
    names = [str(card.get("name")) for card in cards or () if isinstance(card, Mapping)]
    counted = [f"{names.count(name)} x {name}" for name in dict.fromkeys(names)]
    memory = at("memory_bytes")
    packages = at("packages") or {}
    tensorflow = next(
        (f"{name} {packages[name]}" for name in ("tensorflow", "tensorflow-cpu") if name in packages), None
    )
    cores = [at("cpu", "usable"), at("cpu", "threads")]
    nics = [f"{nic['name']} {nic['speed_mbit']} Mbit/s" for nic in at("nics") or () if nic.get("speed_mbit")]
    return {
        "host": _text(at("host")),
        "machine": _text(at("system", "model")),
        "processor": _text(at("cpu", "model")),
        "cores": f"{cores[0]} of {cores[1]} usable" if None not in cores else None,
        "memory": f"{memory / 1e9:.0f} GB" if isinstance(memory, int) else None,
        "accelerators": ", ".join(counted) if counted else "none" if cards == [] else None,
        "links": ", ".join(nics) or None,
        "driver": _text(at("driver", "version")),
        "clock policy": _text(at("cpu", "governor")),
        "TensorFlow": tensorflow,
        "system": _text(at("os")),
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
