"""TPU cores: XLA operations by HLO category, with the windows of asynchronous copies and collectives united.

A synchronous collective is communication and never covers anything: only compute hides communication.
"""

import re

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.profiling.classes import Kind, kinds
from tfscale.suite.profiling.devices.base import Device, by_kind, spans_of, window_of
from tfscale.suite.profiling.devices.host import waiting_for_input, working
from tfscale.suite.profiling.intervals import Spans, united
from tfscale.suite.profiling.table import HostTrace, Ints

_PLANE = re.compile(r"^/device:TPU:\d+$")
OPS = ("XLA Ops", "TensorFlow Ops")
ASYNC, TRACE_ME = "Async XLA Ops", "XLA TraceMe"


def devices(trace: HostTrace, *, async_windows: bool = True) -> list[Device]:
    """The TPU cores that ran operations; none where the trace has none.

    `async_windows=False` counts an asynchronous operation only while its start and its done run.
    """
    planes = [plane for plane in trace.planes() if _PLANE.match(plane)]
    if not planes:
        return []
    of_name = _kinds(trace)
    host, waiting = working(trace), waiting_for_input(trace)
    found = []
    for plane in planes:
        rows = next((rows for name in OPS if (rows := trace.rows_on(plane, name)).size), None)
        if rows is None:
            continue
        kind = of_name[trace.name[rows]]
        spans = by_kind(trace, rows, kind)
        windows = _kinds_of(trace, trace.rows_on(plane, ASYNC), of_name) if async_windows else {}
        found.append(
            Device(
                name=plane,
                platform="tpu",
                window=window_of(trace, rows),
                rows=rows,
                kind=kind,
                compute=united(spans[Kind.COMPUTE], spans[Kind.UNKNOWN]),
                communication=united(spans[Kind.COMMUNICATION], *windows.get(Kind.COMMUNICATION, ())),
                copy=united(spans[Kind.COPY], *windows.get(Kind.COPY, ())),
                input=waiting,
                host=host,
                wait=_waits(trace, trace.rows_on(plane, TRACE_ME), of_name),
            )
        )
    return found


def _kinds(trace: HostTrace) -> NDArray[np.int8]:
    return kinds((str(name.stats.get("hlo_category", name.name)) for name in trace.names), "tpu")


def _kinds_of(trace: HostTrace, rows: Ints, of_name: NDArray[np.int8]) -> dict[Kind, tuple[Spans]]:
    """The windows of asynchronous operations by class."""
    return {kind: (spans,) for kind, spans in by_kind(trace, rows, of_name[trace.name[rows]]).items()}


def _waits(trace: HostTrace, rows: Ints, of_name: NDArray[np.int8]) -> Spans:
    return spans_of(trace, rows[of_name[trace.name[rows]] == Kind.WAIT])
