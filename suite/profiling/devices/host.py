"""What the host beside an accelerator does: waiting for input, and its own work (Python, executor, launches)."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.profiling.classes import Kind, kinds
from tfscale.suite.profiling.devices.base import spans_of
from tfscale.suite.profiling.intervals import Spans, difference, united
from tfscale.suite.profiling.table import HostTrace, Line

_HOST = re.compile(r"^/host:(CPU|python-tracer)$")
_DATA = re.compile(r"^tf_data_(?!iterator_get_next)")
_BACKGROUND = re.compile(r"^(tf_data_|collective_ops|grpc|tf_Grpc)", re.IGNORECASE)
_BLOCKED = re.compile(
    r"(cuda|hip)(Device|Stream|Event)Synchronize|cu(Stream|Event|Ctx)Synchronize|BlockHostUntilDone|AwaitReady"
    r"|^KernelAndDeviceFunc::Run$|block_until_ready"
)
"""Events in which a thread waits for what it has started."""


def waiting_for_input(trace: HostTrace) -> Spans:
    """When the consumer of the input blocks; what background threads of tf.data do is not waiting."""
    mask = kinds((name.name for name in trace.names), "cpu") == Kind.INPUT
    return spans_of(trace, trace.rows_named(mask, [line for line in host_lines(trace) if not _DATA.match(line.name)]))


def working(trace: HostTrace, lines: Sequence[Line] | None = None) -> Spans:
    """When a thread of `lines` (default: all that do not work in the background) runs Python, the executor, or launches.

    A thread that waits for what it has started does not work, whatever events are open around the wait.
    """
    blocked = np.fromiter((bool(_BLOCKED.search(name.name)) for name in trace.names), bool, len(trace.names))
    chosen = [line for line in host_lines(trace) if not _BACKGROUND.match(line.name)] if lines is None else lines
    return united(*(_awake(trace, line, blocked) for line in chosen))


def _awake(trace: HostTrace, line: Line, blocked: NDArray[np.bool_]) -> Spans:
    every = spans_of(trace, np.arange(line.first, line.stop))
    return difference(every, spans_of(trace, trace.rows_named(blocked, [line])))


def host_lines(trace: HostTrace) -> list[Line]:
    """The lines of a host that have events, its Python tracer's included."""
    return [line for line in trace.lines if _HOST.match(line.plane) and len(line)]
