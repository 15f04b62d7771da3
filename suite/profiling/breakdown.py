"""The six exclusive parts of a step: compute, exposed communication, exposed copy, input wait, host overhead, idle.

Each instant goes to the first that applies, in that order; what none covers is idle. Integer picoseconds, so the parts
sum exactly to the span, which is asserted. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tfscale.suite.profiling.devices.base import Device
from tfscale.suite.profiling.intervals import EMPTY, Ints, Spans, covered, difference, intersection, united

PARTS = ("compute", "exposed_communication", "exposed_copy", "input_wait", "host_overhead", "idle")
TOTALS = ("communication", "overlapped_communication", "copy", "wait")


@dataclass(frozen=True)
class Parts:
    """One span of one device, picoseconds. `totals` overlap with the parts and with each other."""

    span_ps: int
    parts: dict[str, int]
    totals: dict[str, int]

    def __post_init__(self) -> None:
        assert sum(self.parts.values()) == self.span_ps, f"parts {self.parts} do not sum to {self.span_ps} ps"
        assert min(self.parts.values()) >= 0, f"a negative part in {self.parts}"


@dataclass(frozen=True, eq=False)
class Exclusive:
    """A device's time cut into exclusive intervals, once, for any number of spans."""

    device: Device

    @cached_property
    def parts(self) -> dict[str, Spans]:
        """Exclusive intervals of every part but idle."""
        device = self.device
        found: dict[str, Spans] = {}
        taken = EMPTY
        layers = (device.compute, device.communication, device.copy, device.input, device.host)
        for part, spans in zip(PARTS[:-1], layers, strict=True):
            found[part] = difference(spans, taken)
            taken = united(taken, spans)
        return found

    @cached_property
    def totals(self) -> dict[str, Spans]:
        device = self.device
        return {
            "communication": device.communication,
            "overlapped_communication": intersection(device.communication, device.compute),
            "copy": device.copy,
            "wait": device.wait,
        }


def break_down(exclusive: Exclusive, start: Sequence[int] | Ints, end: Sequence[int] | Ints) -> list[Parts]:
    """The parts of each span [start, end) of a device."""
    starts, ends = np.asarray(start, np.int64), np.asarray(end, np.int64)
    parts = {name: covered(spans, starts, ends) for name, spans in exclusive.parts.items()}
    parts["idle"] = (ends - starts) - sum(parts.values(), np.zeros_like(starts))
    totals = {name: covered(spans, starts, ends) for name, spans in exclusive.totals.items()}
    return [
        Parts(
            span_ps=int(ends[i] - starts[i]),
            parts={name: int(values[i]) for name, values in parts.items()},
            totals={name: int(values[i]) for name, values in totals.items()},
        )
        for i in range(starts.size)
    ]
