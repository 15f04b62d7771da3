"""Runs of XLA modules on a device (its line `XLA Modules`), and whether run ids are the same on every device. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfscale.suite.profiling.table import HostTrace, Ints

LINE = "XLA Modules"


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs in the order in which they began; `id` is -1 where a run has none."""

    rows: Ints
    id: Ints

    def of(self, trace: HostTrace, times: Ints) -> Ints:
        """The id of the run in which each time lies, -1 for none: (n,)."""
        if not self.rows.size:
            return np.full(times.size, -1, np.int64)
        at = np.maximum(np.searchsorted(trace.start_ps[self.rows], times, side="right") - 1, 0)
        inside = (times >= trace.start_ps[self.rows[at]]) & (times < trace.end_ps[self.rows[at]])
        return np.where(inside, self.id[at], -1)


def runs_of(trace: HostTrace, plane: str) -> Runs:
    rows = trace.rows_on(plane, LINE)
    rows = rows[np.argsort(trace.start_ps[rows], kind="stable")]
    return Runs(rows, trace.stats.integers(rows, "run_id"))


def ids_are_shared(traces: Sequence[HostTrace]) -> bool:
    """Whether one id is one run on all devices: ids are there and unique on each, and name the same module on all.

    A device counts the programs that it was given. One that was given another program more (a conversion on the first
    chip, say) has other numbers for the same runs, and then only the n-th run of a module can be joined.
    """
    known: dict[int, str] = {}
    for trace in traces:
        for plane in trace.planes():
            runs = runs_of(trace, plane)
            if not runs.rows.size:
                continue
            told = dict(zip(runs.id.tolist(), trace.names_of(runs.rows), strict=True))
            common = told.keys() & known.keys()
            if min(told) < 0 or len(told) < runs.rows.size or (known and not common):
                return False
            if any(told[id_] != known[id_] for id_ in common):
                return False
            known.update(told)
    return bool(known)
