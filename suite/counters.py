"""Counters of a trial: from what the sampler wrote to what the record keeps, and the series beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.monitors.parquet import SERIES, read_parquet, write_parquet
from tfscale.suite.monitors.sampling import LINES
from tfscale.suite.monitors.series import Samples, Series, Window, read
from tfscale.suite.monitors.summary import summarise
from tfscale.suite.record import Monitored, Record
from tfscale.suite.timing.series import BlockSeries


@dataclass(frozen=True)
class Counted:
    """What was sampled beside a trial; empty where nothing was asked for."""

    monitors: Mapping[str, Monitored] = field(default_factory=dict)
    series: Mapping[str, Series] = field(default_factory=dict)


def count(folder: Path, wanted: Sequence[str], window: Window, reason: str | None) -> Counted:
    """Summaries over `window` of the monitors that were `wanted`. `reason`: why the sampler has nothing, or ended early.

    What cannot be read is a reason on the record: counters never cost a trial.
    """
    if not wanted:
        return Counted()
    samples = Samples()
    try:
        samples = read(folder / LINES)
    except OSError as error:
        reason = reason or f"what the sampler wrote cannot be read: {error}"
    return Counted({name: summarise(samples, name, window, reason) for name in wanted}, samples.monitors)


def keep(folder: Path, counted: Counted, window: Window, ranks: Sequence[BlockSeries], start: int) -> dict[str, str]:
    """Write the series beside the record, in place of the sampler's lines; the record's `files` of it.

    The step axis is that of the first rank's blocks from block `start` on.
    """
    if not counted.series:
        return {}
    blocks = ranks[0]
    ends: NDArray[np.int64] = np.concatenate([blocks.start_ns[start : start + 1], blocks.end_ns[start:]])
    try:
        write_parquet(folder / SERIES, counted.series, window.t0_ns, ends, blocks.steps[start:])
    except OSError:  # the lines stay where they are, and can be read again
        return {"samples": LINES}
    (folder / LINES).unlink(missing_ok=True)
    return {"series": SERIES}


def kept(records: Sequence[Record], folders: Mapping[str, Path]) -> tuple[dict[str, dict[str, Series]], list[str]]:
    """Record id -> monitor -> its series, of the records that have any, and what could not be read.

    `folders`: record id -> the folder that its `files` are relative to.
    """
    found: dict[str, dict[str, Series]] = {}
    warnings = []
    for record in records:
        if SERIES in record.files.values():
            path = folders[record.id] / SERIES
            try:
                found[record.id] = read_parquet(path)
            except (OSError, ValueError) as error:
                warnings.append(f"{path}: no counters ({error})")
    return found, warnings
