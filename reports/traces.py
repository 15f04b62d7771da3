"""Block-time traces: the series of every case, in words for the page and as small charts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from tfscale.reports import case_table, frames, text
from tfscale.reports.figures import trace
from tfscale.suite.record import Record, Run
from tfscale.suite.timing.job import merge
from tfscale.suite.timing.series import series_of_ranks

Arrays = Mapping[str, NDArray[Any]]
APART = ("independent",)
"""Strategies whose ranks do not run in lockstep."""


@dataclass(frozen=True)
class Trace:
    title: str
    subtitle: str
    figure: str
    caption: str


def series(arrays: Arrays, lockstep: bool, one_clock: bool) -> pd.DataFrame:
    """The job's blocks as rows: elapsed_s at the end of each block, and its mean step_ms.

    Ranks that are not in lockstep (independent replicas) have no job blocks: rank 0 stands for all.
    """
    ranks = [rank for rank in series_of_ranks(arrays) if len(rank)]
    if not ranks:
        return pd.DataFrame({"elapsed_s": [], "step_ms": []}, dtype=float)
    offsets = [0.0] * len(ranks) if one_clock else None
    job = merge(ranks, offsets) if lockstep else merge(ranks[:1], [0.0])
    elapsed = job.boundaries_s[1:] - job.boundaries_s[0]
    return pd.DataFrame({"elapsed_s": elapsed, "step_ms": job.step_seconds * 1e3})


def traces(run: Run, blocks: Mapping[str, Arrays]) -> list[Trace]:
    """One trace a case, in the order of the run, its trials on top of each other."""
    records: dict[str, list[Record]] = {}
    for record in run.records:
        records.setdefault(record.case_id, []).append(record)
    rows = {row["case_id"]: row for row in frames.cases(run).to_dict("records")}
    return [
        _trace(sorted(records[case_id], key=lambda record: record.trial), row, blocks)
        for case_id, row in rows.items()
        if case_id in records
    ]


def _trace(records: Sequence[Record], row: Mapping[Any, Any], blocks: Mapping[str, Arrays]) -> Trace:
    title = f"{row['workload']} {row['preset']}, {row['strategy']}"
    subtitle = f"{text.plural(row['devices'], 'device')} · {case_table.setting(dict(row))}"
    lockstep = row["strategy"] not in APART
    drawn = [
        (record, series(blocks[record.id], lockstep, row["hosts"] == 1)) for record in records if record.id in blocks
    ]
    if not drawn or drawn[0][1].empty:
        return Trace(title, subtitle, "", "No blocks are on record for this case.")
    record, first = drawn[0]
    start = record.steady.start
    cut_s = float(first["elapsed_s"].iloc[start - 1]) if 0 < start <= len(first) else None
    caption = _caption(record, len(first), len(drawn))
    spoken = f"Step time in milliseconds of each block over elapsed seconds for {title}, {subtitle}. {caption}"
    figure = trace.block_trace([frame for _, frame in drawn], _levels(record, first), cut_s, spoken)
    return Trace(title, subtitle, figure, caption)


def _levels(record: Record, blocks: pd.DataFrame) -> pd.DataFrame:
    ends = [0.0, *blocks["elapsed_s"]]
    rows = [
        (ends[level.start], ends[min(level.stop, len(blocks))], level.mean * 1e3)
        for level in record.steady.levels
        if level.start < len(blocks)
    ]
    return pd.DataFrame(rows, columns=["from_s", "to_s", "step_ms"])


def _caption(record: Record, count: int, trials: int) -> str:
    steady = record.steady
    kind = record.quantities["step_time"].kind if "step_time" in record.quantities else "unknown kind"
    words = [f"{steady.classification}, {text.plural(len(steady.levels), 'level')}"]
    words.append(f"{steady.start} of {count} blocks cut" if steady.start else f"all {count} blocks used")
    words += [text.plural(trials, "trial"), kind]
    return "; ".join(words) + "."
