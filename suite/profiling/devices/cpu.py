"""A host that computes itself: its compute threads are the device, one device a host.

A collective's real interval is its op event on a `collective_ops` thread; the event on the compute thread is only the
launch. Background threads of tf.data work ahead: they are neither compute of the step nor waiting. XLA's thunks are
named after HLO instructions, on the threads that run them.
"""

import re

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.profiling.classes import Kind, kinds
from tfscale.suite.profiling.devices.base import Device, by_kind, window_of
from tfscale.suite.profiling.devices.host import working
from tfscale.suite.profiling.intervals import EMPTY, Spans, union, united
from tfscale.suite.profiling.table import HostTrace, Line

NAME = "/host:CPU"
_POOL = re.compile(r"^(tf_|Eigen|XLAEigen|pjrt|py_xla|main)", re.IGNORECASE)
_DATA = re.compile(r"^tf_data_")
_CONSUMER = re.compile(r"^tf_data_iterator_get_next")
_NETWORK = re.compile(r"^(collective_ops|grpc|tf_Grpc)", re.IGNORECASE)
_PYTHON = re.compile(r"^python", re.IGNORECASE)
_SHARED_POOL = re.compile(r"Eigen")
_THUNK = re.compile(r"^([a-z][a-z0-9_-]*(\.[a-z0-9_-]+)*|\w+(\.\d+)+)$")
"""HLO instructions, as XLA names the thunks that run them."""
_RUNTIME = re.compile(
    r"::|^(end: |Eager|TFE_|FunctionRun|SessionRun|Memory|MemCpy|Memcpy|RemoteCallOp|Executor|Prefetch|ParallelMap|Loop$"
    r"|ValidateInput|GetNextFromShard|RunGraph|Pjit|PjRt|Tfrt|Xla|\$)"
)
"""Work of the runtime between operations."""


def devices(trace: HostTrace) -> list[Device]:
    """The host as one device; none where it has no events."""
    lines = [line for line in trace.lines if line.plane == NAME and len(line)]
    if not lines:
        return []
    of_name = _kinds(trace)
    kind = np.concatenate([_on_line(line, of_name[trace.name[line.rows]]) for line in lines])
    rows = np.concatenate([np.arange(line.first, line.stop) for line in lines])
    spans = by_kind(trace, rows, kind)
    python = [line for line in lines if _PYTHON.match(line.name)]
    return [
        Device(
            name=NAME,
            platform="cpu",
            window=window_of(trace, rows),
            rows=rows,
            kind=kind,
            compute=united(spans[Kind.COMPUTE], spans[Kind.UNKNOWN], *(_regions(trace, line) for line in lines)),
            communication=spans[Kind.COMMUNICATION],
            copy=spans[Kind.COPY],
            input=spans[Kind.INPUT],
            host=united(spans[Kind.HOST], working(trace, python)),
        )
    ]


def _regions(trace: HostTrace, line: Line) -> Spans:
    """When a thread of the pool that operations share works for one of them, whose own event may have ended.

    Such work is marked by a pair of events without length. Pools of the executor have the same marks around its own
    bookkeeping, so only the shared pool counts.
    """
    if not _SHARED_POOL.search(line.name):
        return EMPTY
    names = [name.name for name in trace.names]
    edges = []
    for mark in ("ThreadpoolListener::StartRegion", "ThreadpoolListener::StopRegion"):
        chosen = np.fromiter((name == mark for name in names), bool, len(names))
        edges.append(np.sort(trace.start_ps[trace.rows_named(chosen, [line])]))
    start, stop = edges
    following = np.searchsorted(stop, start)
    closed = following < stop.size
    return union(start[closed], stop[following[closed]])


def _kinds(trace: HostTrace) -> NDArray[np.int8]:
    """The class that each name has on a thread that computes."""
    found = kinds((name.name for name in trace.names), "cpu")
    for number in np.flatnonzero(found == Kind.UNKNOWN):
        name = trace.names[number].name
        if _RUNTIME.search(name):
            found[number] = Kind.HOST
        elif _THUNK.match(name):
            found[number] = Kind.COMPUTE
    return found


def _on_line(line: Line, kind: NDArray[np.int8]) -> NDArray[np.int8]:
    """The classes of a line's events, given those that their names have on a compute thread."""
    if _DATA.match(line.name):
        kept = kind == Kind.INPUT if _CONSUMER.match(line.name) else np.zeros(kind.size, bool)
    elif _NETWORK.match(line.name):
        kept = kind == Kind.COMMUNICATION
    elif _POOL.match(line.name):
        return kind
    else:  # Python and the like: only operations that it runs itself; its overhead is told from all of its events
        kept = np.isin(kind, (Kind.COMMUNICATION, Kind.INPUT))
    return np.where(kept, kind, Kind.IGNORED).astype(np.int8)
