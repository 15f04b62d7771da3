"""Steps that the host tells: explicit markers (stat `_r` or `step_num`, `ProfilerStep#n`), else calls of its function."""

import re

import numpy as np

from tfscale.suite.profiling.devices.host import host_lines
from tfscale.suite.profiling.steps import FUNCTIONS, MARKERS, Steps, spans
from tfscale.suite.profiling.table import HostTrace, Ints, Line

_STEP_NAME = re.compile(r"^ProfilerStep#([0-9]{1,18})$")
_FUNCTION = re.compile(r"^(FunctionRun|SessionRun|EagerLocalExecute: __inference_)")


def host_steps(trace: HostTrace) -> Steps | None:
    """The steps that markers on the host tell, or None. Markers that overlap or repeat a number are one step."""
    lines = host_lines(trace)
    named = _profiler_steps(trace, lines)
    if named is not None:
        return named
    rows = _marked(trace, lines)
    if not rows.size:
        return None
    number = trace.stats.integers(rows, "step_num")
    if (number < 0).all():
        return _functions(trace, rows)
    return spans(trace, rows[number >= 0], number[number >= 0], MARKERS)


def _marked(trace: HostTrace, lines: list[Line]) -> Ints:
    """Rows that carry a root mark, looked for only among names that have it on their first event."""
    candidates = []
    for line in lines:
        _, first = np.unique(trace.name[line.rows], return_index=True)
        firsts = np.sort(first) + line.first
        marked = (trace.stats.integers(firsts, "step_num") >= 0) | (trace.stats.integers(firsts, "_r") > 0)
        chosen = np.zeros(len(trace.names), bool)
        chosen[trace.name[firsts[marked]]] = True
        candidates.append(trace.rows_named(chosen, [line]))
    rows = np.concatenate(candidates) if candidates else np.empty(0, np.int64)
    numbered = trace.stats.integers(rows, "step_num") >= 0
    return rows[numbered] if numbered.any() else rows


def _profiler_steps(trace: HostTrace, lines: list[Line]) -> Steps | None:
    """PyTorch's `ProfilerStep#n`."""
    numbers = {i: int(m[1]) for i, name in enumerate(trace.names) if (m := _STEP_NAME.match(name.name))}
    if not numbers:
        return None
    chosen = np.zeros(len(trace.names), bool)
    chosen[list(numbers)] = True
    rows = trace.rows_named(chosen, lines)
    number = np.array([numbers[int(name)] for name in trace.name[rows]], np.int64)
    return spans(trace, rows, number, MARKERS) if rows.size else None


def _functions(trace: HostTrace, rows: Ints) -> Steps | None:
    """Calls of functions as steps: those of the name that takes most time."""
    ours = np.array([bool(_FUNCTION.match(name)) for name in trace.names_of(rows)], bool)
    rows = rows[ours]
    if not rows.size:
        return None
    names, inverse = np.unique(trace.name[rows], return_inverse=True)
    time = np.bincount(inverse, weights=trace.duration_ps[rows].astype(np.float64), minlength=names.size)
    rows = rows[trace.name[rows] == names[int(np.argmax(time))]]
    rows = rows[np.argsort(trace.start_ps[rows], kind="stable")]
    return spans(trace, rows, np.arange(rows.size, dtype=np.int64), FUNCTIONS)
