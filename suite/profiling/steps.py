"""Where the steps of a device begin and end, and how that is known.

Sources in order: explicit markers on the host (stat `_r` or `step_num`), a `Steps` line of the device, XLA modules by
run id, function runs, else the whole window. A device that runs behind its host has steps of its own: an operation
belongs to the step that launched it (correlation id), and a device step lasts from the end of the last operation of
the step before to the end of its own last one.
"""

import re
from dataclasses import dataclass, field, replace

import numpy as np

from tfscale.suite.profiling.devices.base import Device
from tfscale.suite.profiling.devices.host import host_lines
from tfscale.suite.profiling.runs import runs_of
from tfscale.suite.profiling.table import HostTrace, Ints

MARKERS, STEPS_LINE, MODULES, FUNCTIONS, WINDOW = (
    "markers",
    "steps line",
    "XLA modules",
    "function runs",
    "whole window",
)


@dataclass(frozen=True)
class Dropped:
    """A step that is not broken down."""

    step: int
    reason: str


@dataclass(frozen=True, eq=False)
class Steps:
    """Spans of steps, in time order; `number` is what the source calls each."""

    source: str
    number: Ints
    start: Ints
    end: Ints
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return int(self.number.size)

    def locate(self, times: Ints) -> Ints:
        """Place of the step in which each time lies, -1 for none."""
        if not len(self):
            return np.full(times.size, -1, np.int64)
        at = np.searchsorted(self.start, times, side="right") - 1
        return np.where((at >= 0) & (times < self.end[np.maximum(at, 0)]), at, -1)


def spans(trace: HostTrace, rows: Ints, number: Ints, source: str) -> Steps:
    """One span a step, from its first start to its last end; in time order.

    A number stands for one step, on however many threads it is marked. Where it comes again on one line after another
    number (a loop that counts from 0 in every epoch), that is another step, and all are counted from 0 instead.
    """
    again = _comes_again(trace, rows, number)
    pairs, inverse = np.unique(np.stack((again, number)), axis=1, return_inverse=True)
    inverse, numbers = inverse.ravel(), pairs[1]
    start = np.full(numbers.size, np.iinfo(np.int64).max)
    end = np.full(numbers.size, np.iinfo(np.int64).min)
    np.minimum.at(start, inverse, trace.start_ps[rows])
    np.maximum.at(end, inverse, trace.end_ps[rows])
    order = np.argsort(start, kind="stable")
    if not again.any():
        return _disjoint(source, numbers[order], start[order], end[order])
    steps = _disjoint(source, np.arange(order.size, dtype=np.int64), start[order], end[order])
    note = "the numbers of steps come again, so steps are counted from 0"
    return replace(steps, notes=(*steps.notes, note))


def _comes_again(trace: HostTrace, rows: Ints, number: Ints) -> Ints:
    """How often each row's number had already been begun on the row's line, other numbers between; (n,)."""
    line = trace.line_of(rows)
    order = np.lexsort((trace.start_ps[rows], line))
    line, ordered = line[order], number[order]
    begins = np.concatenate(([True], (ordered[1:] != ordered[:-1]) | (line[1:] != line[:-1])))[: order.size]
    run = np.cumsum(begins) - 1
    _, inverse = np.unique(np.stack((line[begins], ordered[begins])), axis=1, return_inverse=True)
    kinds = inverse.ravel()
    sorted_runs = np.argsort(kinds, kind="stable")
    first = np.searchsorted(kinds[sorted_runs], kinds[sorted_runs], side="left")
    earlier = np.empty(kinds.size, np.int64)
    earlier[sorted_runs] = np.arange(kinds.size) - first
    found = np.empty(rows.size, np.int64)
    found[order] = earlier[run]
    return found


def _disjoint(source: str, number: Ints, start: Ints, end: Ints) -> Steps:
    """Steps without length are dropped; where two overlap, the earlier ends where the later begins."""
    dropped = [Dropped(int(n), "it has no length") for n in number[end <= start]]
    kept = end > start
    number, start, end = number[kept], start[kept], end[kept]
    overlaps = int((start[1:] < end[:-1]).sum())
    end = np.append(np.minimum(end[:-1], start[1:]), end[-1:])
    dropped += [Dropped(int(n), "the next step begins with it") for n in number[end <= start]]
    kept = end > start
    number, start, end = number[kept], start[kept], end[kept]
    notes = (f"{overlaps} steps overlap the next one and are cut where it begins",) if overlaps else ()
    return Steps(source, number, start, end, tuple(dropped), notes)


def device_steps(trace: HostTrace, device: Device, host: Steps | None, *, shared_ids: bool = False) -> Steps:
    """The steps of one device; `host` are those of its host's markers, where there are any.

    `shared_ids`: run ids of modules are the same on all devices.
    """
    if device.platform == "cpu":
        return host if host is not None and len(host) else whole(device)
    found = _by_launch(trace, device, host) if host is not None and host.source == MARKERS else None
    return (
        found
        or _steps_line(trace, device)
        or _modules(trace, device, shared_ids)
        or (_by_launch(trace, device, host) if host is not None else None)
        or whole(device)
    )


def whole(device: Device) -> Steps:
    start, end = device.window
    return Steps(WINDOW, np.zeros(1, np.int64), np.array([start]), np.array([end]))


def _by_launch(trace: HostTrace, device: Device, host: Steps) -> Steps | None:
    """Device steps by the host step in which each operation was launched; None where launches are not known."""
    launched = launch_times(trace, device)
    known = launched >= 0
    if not known.any():
        return None
    at = host.locate(launched)
    inside = known & (at >= 0)
    if not inside.any():
        return None
    rows, at = device.rows[inside], at[inside]
    ran, inverse = np.unique(at, return_inverse=True)
    last = np.full(ran.size, np.iinfo(np.int64).min)
    first = int(trace.start_ps[rows[at == ran[0]]].min())
    np.maximum.at(last, inverse, trace.end_ps[rows])
    last = np.maximum.accumulate(last)
    start = np.concatenate(([first], last[:-1]))
    absent = np.setdiff1d(np.arange(len(host)), ran)
    dropped = tuple(Dropped(int(host.number[i]), f"nothing of it ran on {device.name}") for i in absent)
    steps = _disjoint(host.source, host.number[ran], start, last)
    return Steps(
        steps.source, steps.number, steps.start, steps.end, host.dropped + dropped + steps.dropped, steps.notes
    )


def launch_times(trace: HostTrace, device: Device) -> Ints:
    """When the host launched each event of a device, picoseconds; -1 where the trace does not tell."""
    times = np.full(device.rows.size, -1, np.int64)
    wanted = trace.stats.integers(device.rows, "correlation_id")
    lines = host_lines(trace)
    if (wanted < 0).all() or not lines:
        return times
    rows = np.concatenate([np.arange(line.first, line.stop) for line in lines])
    given = trace.stats.integers(rows, "correlation_id")
    rows, given = rows[given > 0], given[given > 0]
    if not given.size:
        return times
    order = np.lexsort((trace.start_ps[rows], given))
    given, starts = given[order], trace.start_ps[rows[order]]
    at = np.minimum(np.searchsorted(given, wanted), given.size - 1)
    return np.where((given[at] == wanted) & (wanted > 0), starts[at], -1)


def _steps_line(trace: HostTrace, device: Device) -> Steps | None:
    rows = trace.rows_on(device.name, "Steps")
    if not rows.size:
        return None
    rows = rows[np.argsort(trace.start_ps[rows], kind="stable")]
    names = trace.names_of(rows)
    told = [int(name) if re.fullmatch(r"[0-9]{1,18}", name) else -1 for name in names]
    number = np.array(told, np.int64) if min(told) >= 0 else np.arange(rows.size, dtype=np.int64)
    return spans(trace, rows, number, STEPS_LINE)


def _modules(trace: HostTrace, device: Device, shared_ids: bool) -> Steps | None:
    """Executions of the module that takes most time, by their run ids where those are the same on all devices."""
    runs = runs_of(trace, device.name)
    if not runs.rows.size:
        return None
    names, inverse = np.unique(trace.name[runs.rows], return_inverse=True)
    time = np.bincount(inverse, weights=trace.duration_ps[runs.rows].astype(np.float64), minlength=names.size)
    main = names[int(np.argmax(time))]
    ours = trace.name[runs.rows] == main
    rows = runs.rows[ours]
    number = runs.id[ours] if shared_ids else np.arange(rows.size, dtype=np.int64)
    steps = spans(trace, rows, number, MODULES)
    others = runs.rows.size - rows.size
    note = f"steps are the runs of {trace.names[int(main)].name}; {others} runs of other modules lie outside"
    return replace(steps, notes=(*steps.notes, note))
