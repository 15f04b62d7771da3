"""A case that leaves a number to the machine (`auto`), before its first trial: pilot launches, and what they decide.

Decided once a run and kept in the case's folder, so that every trial, and a resumed run, does the same work.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfscale.suite import adaptive
from tfscale.suite.adaptive import Choice, Pilot
from tfscale.suite.rankfiles import write_atomic
from tfscale.suite.spec import Case

FILE = "decided.json"
FIRST_BATCH = 8
"""Samples a replica takes in the first pilot launch of `per_replica_batch: auto`."""
MEMORY_SHARE = 0.8
"""Share of the memory that a batch chosen here may fill: what else a step needs is not in its peak so far."""

Measured = Callable[[Case], Pilot]
"""Launches a case for its pilot pass. Raises whatever ends the case."""


class UndecidedError(RuntimeError):
    """A pilot launch failed, so that nothing can be decided."""


def decided(case: Case, folder: Path, share: float, available: int | None, measure: Measured) -> Case:
    """`case` with numbers for what it left open; unchanged where it left nothing.

    Args:
        folder: the case's, for `decided.json`.
        share: exposed communication that is allowed, of a step.
        available: bytes of memory that one rank may fill; None where nobody knows.
        measure: makes a pilot launch.
    """
    if not case.undecided:
        return case
    kept = _kept(folder, case)
    if kept is None:
        kept = _decide(case, share, available, measure)
        write_atomic(folder / FILE, json.dumps({"case": case.axes(), **kept}, indent=1).encode())
    return case.with_values(**kept["values"])


def growth(asked: Case, case: Case) -> int:
    """Times that a decided batch is the first pilot's: the learning-rate rule takes that one for its base."""
    return case.micro_batch // FIRST_BATCH if asked.per_replica_batch == "auto" else 1


def told(folder: Path) -> dict[str, Any]:
    """What a record's `effective` says of decisions made for its case: asked for, why, and the expected share."""
    try:
        kept = json.loads((folder / FILE).read_bytes())
    except FileNotFoundError:
        return {}
    return {
        **{f"{axis}_asked": "auto" for axis in kept["values"]},
        **{f"{axis}_chosen": f"{value}: {kept['why']}" for axis, value in kept["values"].items()},
        "expected_exposed_share": kept["expected_share"],
    }


def _kept(folder: Path, case: Case) -> dict[str, Any] | None:
    try:
        kept: dict[str, Any] = json.loads((folder / FILE).read_bytes())
    except (FileNotFoundError, ValueError):  # never decided, or written by hand: decide again
        return None
    return kept if kept.get("case") == case.axes() else None


def _decide(case: Case, share: float, available: int | None, measure: Measured) -> dict[str, Any]:
    if case.per_replica_batch == "auto":
        choice = _batch(case, share, available, measure)
        axis = "per_replica_batch"
    else:
        choice = adaptive.choose_accumulation(measure(case.with_values(accumulation=1)), share)
        axis = "accumulation"
    return {"values": {axis: choice.value}, "why": choice.why, "expected_share": choice.expected_share}


def _batch(case: Case, share: float, available: int | None, measure: Measured) -> Choice:
    once = measure(case.with_values(per_replica_batch=FIRST_BATCH))
    most = None
    if available is not None and once.memory_bytes is not None and adaptive.least_factor(once, share) > 1:
        twice = measure(case.with_values(per_replica_batch=2 * FIRST_BATCH))
        if twice.memory_bytes is not None:
            room = int(MEMORY_SHARE * available)
            most = adaptive.fitting_batch(FIRST_BATCH, once.memory_bytes, twice.memory_bytes, room)
    return adaptive.choose_batch(once, FIRST_BATCH, share, most)
