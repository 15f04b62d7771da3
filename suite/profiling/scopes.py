"""Time that operations under an exchange's name scopes took in a profiled pass."""

import re
from fractions import Fraction

import numpy as np

from tfscale.suite.profiling.analysed import Analysed, DeviceAnswer, HostAnswer
from tfscale.suite.profiling.intervals import covered, union

ENCODE, DECODE = "exchange/encode", "exchange/decode"
_STATS = ("tf_op", "name")
"""Where a kernel says which TensorFlow operation launched it."""


def exchange_times(analysed: Analysed, optimizer_steps: int = 1) -> dict[str, int] | None:
    """encode_ps and decode_ps of a step: time in which anything of that scope ran, mean over devices and steps.

    Threads that run at once count once. None where no operation of a marked step has either scope. `optimizer_steps`:
    steps that one marked step holds.
    """
    devices = [
        (host, device) for host in analysed.hosts for device in host.devices if device.steps.source != "whole window"
    ]
    steps = sum(len(device.steps) for _, device in devices) * optimizer_steps
    if not steps:
        return None
    encode, decode = (sum(_busy(host, device, scope) for host, device in devices) for scope in (ENCODE, DECODE))
    if encode == decode == 0:
        return None
    return {"encode_ps": round(Fraction(encode, steps)), "decode_ps": round(Fraction(decode, steps))}


def _busy(host: HostAnswer, device: DeviceAnswer, scope: str) -> int:
    """Picoseconds within the device's steps in which an operation of `scope` ran."""
    trace = host.trace
    inside = re.compile(rf"(^|/){re.escape(scope)}(/|_\d+/)")  # a scope that is entered again is numbered
    chosen = np.array(
        [
            any(
                inside.search(str(text))
                for text in (one.name, one.display, *(one.stats.get(key, "") for key in _STATS))
            )
            for one in trace.names
        ],
        dtype=bool,
    )
    rows = device.device.rows
    rows = rows[chosen[trace.name[rows]]] if chosen.size else rows[:0]
    spans = union(trace.start_ps[rows], trace.end_ps[rows])
    return int(covered(spans, device.steps.start, device.steps.end).sum())
