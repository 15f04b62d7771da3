"""The breakdown of a case's profiled pass, for its record."""

from pathlib import Path
from typing import Any

from tfscale.suite.record import Record


def breakdown_of(folder: Path, record: Record) -> tuple[dict[str, Any] | None, str | None]:
    """(`breakdown`, None) from the traces of all ranks below `folder`, or (None, why there is none)."""
    from tfscale.suite.profiling.answer import answer
    from tfscale.suite.profiling.summary import breakdown
    from tfscale.suite.profiling.table import TraceError

    try:
        found = answer([folder])
    except TraceError as error:
        return None, f"the profile cannot be read: {error}"
    # One marker stands around one call, which holds several optimiser steps where the case says so.
    steps = int(record.case.get("steps_per_call", 1))
    told = breakdown(found, record.quantities["step_time"].value, steps)
    return told, None if told else "no step is marked in the profile"
