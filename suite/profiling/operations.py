"""Which operations and kernels took the time: count, total and self time a step, by normalised name.

Names are normalised so that traces of different builds line up: counters at the end go, template arguments become
`<>`, addresses and hashes become `#`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tfscale.suite.profiling.analysed import DeviceAnswer, HostAnswer
from tfscale.suite.profiling.classes import Kind, bounded
from tfscale.suite.profiling.table import HostTrace, Ints

_SHOWN = (Kind.COMPUTE, Kind.COMMUNICATION, Kind.COPY, Kind.INPUT, Kind.UNKNOWN)
_MOST_ROUNDS = 200
_SHAPE_STATS = ("shape_with_layout", "shape", "tensor_shapes")


@dataclass(frozen=True)
class Operation:
    """One kind of operation on one device, over all of its steps."""

    name: str
    kind: str
    count: int
    total_ps: int
    self_ps: int
    """Without the events inside it on the same line."""
    share: float
    """Of the device's busy time, by self time."""
    per_step_ps: float
    """Self time a step."""
    shape: str | None


@dataclass(frozen=True)
class Change:
    """One operation in two traces: self time a step, 0 where a trace has none, and of each call, None there."""

    name: str
    kind: str
    before_ps: float
    after_ps: float
    before_each_ps: float | None
    after_each_ps: float | None

    @property
    def grown_ps(self) -> float:
        return self.after_ps - self.before_ps


def normalise(name: str) -> str:
    """`fused_dot_17` -> `fused_dot`, `gemm<float, 4>` -> `gemm<>`, `dense_3/MatMul:MatMul` -> `dense/MatMul:MatMul`."""
    name = name.partition(" = ")[0].removeprefix("%") if name.startswith("%") else name
    name = bounded(name)
    name = _without_templates(name)
    name = re.sub(r"0x[0-9a-fA-F]+|\b[0-9a-f]{12,}\b", "#", name)
    name = re.sub(r"(?<=\w)[._](\d+)(?=$|[/:._\s(])", "", name)
    name = re.sub(r"(?<=\w)[._](\d+)(?=$|[/:._\s(])", "", name)
    return re.sub(r"\s+", " ", name).strip() or "(no name)"


def _without_templates(name: str) -> str:
    """Template arguments, nested as they come, become `<>`."""
    depth, out = 0, []
    for letter in name:
        if letter == "<":
            if depth == 0:
                out.append("<>")
            depth += 1
        elif letter == ">" and depth:
            depth -= 1
        elif depth == 0:
            out.append(letter)
    return "".join(out) if depth == 0 else name


def operations(host: HostAnswer, device: DeviceAnswer) -> list[Operation]:
    """The operations of a device inside its steps, the one with most self time first."""
    trace, inner = host.trace, device.device
    chosen = np.isin(inner.kind, _SHOWN) & (device.steps.locate(trace.start_ps[inner.rows]) >= 0)
    rows, kind = inner.rows[chosen], inner.kind[chosen]
    if not rows.size:
        return []
    own = self_times(trace, rows)
    numbers, inverse = np.unique(trace.name[rows], return_inverse=True)
    keys = [(normalise(trace.names[n].display or trace.names[n].name), n) for n in numbers.tolist()]
    count = np.bincount(inverse)
    total = _sums(inverse, trace.duration_ps[rows], numbers.size)
    self_ps = _sums(inverse, own, numbers.size)
    first_kind = np.full(numbers.size, 0, np.int8)
    first_kind[inverse[::-1]] = kind[::-1]
    gathered: dict[tuple[str, int], list[int]] = {}
    for at, (name, _) in enumerate(keys):
        gathered.setdefault((name, int(first_kind[at])), []).append(at)
    busy, steps = int(own.sum()), max(len(device.steps), 1)
    found = [
        Operation(
            name=name,
            kind=Kind(one).name.lower(),
            count=int(count[at].sum()),
            total_ps=int(total[at].sum()),
            self_ps=int(self_ps[at].sum()),
            share=float(self_ps[at].sum() / busy) if busy else 0.0,
            per_step_ps=float(self_ps[at].sum() / steps),
            shape=_shape(trace, [keys[i][1] for i in at]),
        )
        for (name, one), at in gathered.items()
    ]
    return sorted(found, key=lambda operation: (-operation.self_ps, operation.name))


def self_times(trace: HostTrace, rows: Ints) -> Ints:
    """Length of each event less what of it the events inside it cover, on the same line: (n,), never negative.

    An event is inside the nearest one before it that ends no earlier. Those inside one event and in no nearer one end in
    the order in which they begin, so each covers what lies behind the end of the one before it.
    """
    line = trace.line_of(rows)
    order = _in_order(line, trace.start_ps[rows], trace.duration_ps[rows])
    start, end = trace.start_ps[rows[order]], trace.end_ps[rows[order]]
    parent = _nearest_around(start, end, line[order])
    inner = np.flatnonzero(parent >= 0)
    inner = inner[np.argsort(parent[inner], kind="stable")]
    around = parent[inner]
    before = np.where(np.diff(around, prepend=-1) == 0, np.roll(end[inner], 1), start[inner])
    own = trace.duration_ps[rows].copy()
    np.subtract.at(own, order[around], np.maximum(end[inner] - np.maximum(start[inner], before), 0))
    return own


def _in_order(line: Ints, start: Ints, length: Ints) -> Ints:
    """Places sorted by line and begin, the longer first; most writers have them so already, and sorting takes longest."""
    later = (
        (line[1:] > line[:-1]) | (start[1:] > start[:-1]) | ((start[1:] == start[:-1]) & (length[1:] <= length[:-1]))
    )
    if (later & (line[1:] >= line[:-1])).all():
        return np.arange(line.size)
    return np.lexsort((-length, start, line))


def _nearest_around(start: Ints, end: Ints, line: Ints) -> Ints:
    """For events sorted by line and begin, the nearest one before each on its line that ends no earlier; -1 for none.

    Links are followed for all events at once: what a link skips ends earlier than the event, so links of links hold.
    """
    found = np.full(end.size, -1, np.int64)
    edges = np.flatnonzero(np.diff(line, prepend=-1, append=-1))
    for first, stop in pairwise(edges.tolist()):
        inside = start[first + 1 : stop] < np.maximum.accumulate(end[first : stop - 1])
        rows = first + 1 + np.flatnonzero(inside)
        found[rows] = rows - 1
    open_ = np.flatnonzero(found >= 0)
    for _ in range(_MOST_ROUNDS):
        open_ = open_[end[found[open_]] < end[open_]]
        if not open_.size:
            return found
        found[open_] = found[found[open_]]
        open_ = open_[found[open_] >= 0]
    return _nearest_one_by_one(end, line)


def _nearest_one_by_one(end: Ints, line: Ints) -> Ints:
    """The same with a stack: for lines nested thousands deep."""
    found = np.full(end.size, -1, np.int64)
    stack: list[int] = []
    ends, lines = end.tolist(), line.tolist()
    for at in range(len(ends)):
        while stack and (lines[stack[-1]] != lines[at] or ends[stack[-1]] < ends[at]):
            stack.pop()
        found[at] = stack[-1] if stack else -1
        stack.append(at)
    return found


def differences(before: Sequence[Operation], after: Sequence[Operation]) -> list[Change]:
    """The operations of two traces side by side, the largest change in self time a step first."""
    old = {(operation.name, operation.kind): operation for operation in before}
    new = {(operation.name, operation.kind): operation for operation in after}
    changes = [
        Change(
            name=key[0],
            kind=key[1],
            before_ps=old[key].per_step_ps if key in old else 0.0,
            after_ps=new[key].per_step_ps if key in new else 0.0,
            before_each_ps=old[key].self_ps / old[key].count if key in old else None,
            after_each_ps=new[key].self_ps / new[key].count if key in new else None,
        )
        for key in dict.fromkeys([*new, *old])
    ]
    return sorted(changes, key=lambda change: (-abs(change.grown_ps), change.name))


def _sums(inverse: Ints, values: Ints, size: int) -> Ints:
    sums = np.zeros(size, np.int64)
    np.add.at(sums, inverse, values)
    return sums


def _shape(trace: HostTrace, numbers: Sequence[int]) -> str | None:
    shapes = {str(value) for n in numbers for key in _SHAPE_STATS if (value := trace.names[n].stats.get(key))}
    return shapes.pop() if len(shapes) == 1 else None
