"""The profiled pass of a case, read for its record."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfscale.suite.record import Record


@dataclass(frozen=True)
class Profiled:
    """`breakdown` for the record, or None and the `reason`; `trace` is the whole document, None where unreadable."""

    breakdown: dict[str, Any] | None
    reason: str | None
    trace: dict[str, Any] | None = None


def profile_of(folder: Path, record: Record) -> Profiled:
    """From the traces of all ranks below `folder`."""
    from tfscale.suite.profiling.answer import answer
    from tfscale.suite.profiling.summary import breakdown
    from tfscale.suite.profiling.table import TraceError

    try:
        found = answer([folder])
    except TraceError as error:
        return Profiled(None, f"the profile cannot be read: {error}")
    # One marker stands around one call, which holds several optimiser steps where the case says so.
    steps = int(record.case.get("steps_per_call", 1))
    told = breakdown(found, record.quantities["step_time"].value, steps)
    return Profiled(told, None if told else "no step is marked in the profile", found.document)
