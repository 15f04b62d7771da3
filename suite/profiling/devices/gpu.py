"""GPUs: the streams are the device; derived lines (operations, modules, name scopes, steps) are never summed."""

import re

import numpy as np

from tfscale.suite.profiling.classes import Kind, kinds
from tfscale.suite.profiling.devices.base import Device, by_kind, window_of
from tfscale.suite.profiling.devices.host import waiting_for_input, working
from tfscale.suite.profiling.intervals import united
from tfscale.suite.profiling.table import HostTrace, Line

_PLANE = re.compile(r"^/device:GPU:\d+$")
_STREAM = re.compile(r"^Stream #")


def devices(trace: HostTrace) -> list[Device]:
    """The GPUs that ran something; none where the trace has no stream."""
    streams: dict[str, list[Line]] = {}
    for line in trace.lines:
        if _PLANE.match(line.plane) and _STREAM.match(line.name) and len(line):
            streams.setdefault(line.plane, []).append(line)
    if not streams:
        return []
    of_name = kinds((name.name for name in trace.names), "gpu")
    host, waiting = working(trace), waiting_for_input(trace)
    found = []
    for plane, lines in streams.items():
        rows = np.concatenate([np.arange(line.first, line.stop) for line in lines])
        kind = of_name[trace.name[rows]]
        spans = by_kind(trace, rows, kind)
        found.append(
            Device(
                name=plane,
                platform="gpu",
                window=window_of(trace, rows),
                rows=rows,
                kind=kind,
                compute=united(spans[Kind.COMPUTE], spans[Kind.UNKNOWN]),
                communication=spans[Kind.COMMUNICATION],
                copy=spans[Kind.COPY],
                input=waiting,
                host=host,
            )
        )
    return found
