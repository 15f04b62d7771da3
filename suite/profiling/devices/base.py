"""One device's time as sets of intervals, whatever kind of device it is."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.profiling.classes import Kind
from tfscale.suite.profiling.intervals import EMPTY, Spans, union
from tfscale.suite.profiling.table import HostTrace, Ints


@dataclass(frozen=True, eq=False)
class Device:
    """Unions of what happened on a device, each by itself: they overlap, and breakdown.py makes them exclusive.

    `rows` are its events in the host's table, in the order of `kind` (their class).
    """

    name: str
    platform: str
    """cpu, gpu or tpu."""
    window: tuple[int, int]
    """First event's start and last event's end, picoseconds."""
    rows: Ints
    kind: NDArray[np.int8]
    compute: Spans
    communication: Spans
    copy: Spans
    input: Spans
    host: Spans
    wait: Spans = EMPTY
    """Waiting at a barrier, reported apart; it counts as idle unless something else runs."""


def spans_of(trace: HostTrace, rows: Ints) -> Spans:
    return union(trace.start_ps[rows], trace.end_ps[rows])


def by_kind(trace: HostTrace, rows: Ints, kind: NDArray[np.int8]) -> dict[Kind, Spans]:
    """The union of the events of each class."""
    return {one: spans_of(trace, rows[kind == one]) for one in Kind}


def window_of(trace: HostTrace, rows: Ints) -> tuple[int, int]:
    return int(trace.start_ps[rows].min()), int(trace.end_ps[rows].max())
