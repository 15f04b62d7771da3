"""A trace of several hosts, analysed: for each host its devices, their steps and parts, on one time axis."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfscale.suite.profiling.breakdown import Exclusive, Parts, break_down
from tfscale.suite.profiling.devices import devices_of
from tfscale.suite.profiling.devices.base import Device
from tfscale.suite.profiling.markers import host_steps
from tfscale.suite.profiling.runs import ids_are_shared
from tfscale.suite.profiling.steps import Dropped, Steps, device_steps
from tfscale.suite.profiling.table import HostTrace

_FARTHEST_NS = 2**62 // 1000
"""Captures farther apart (50 days) have no common axis in picoseconds, and nothing in common."""


@dataclass(frozen=True, eq=False)
class DeviceAnswer:
    """One device: its whole window, and every step."""

    device: Device
    exclusive: Exclusive
    steps: Steps
    window: Parts
    parts: list[Parts]
    """In the order of `steps`."""


@dataclass(frozen=True, eq=False)
class HostAnswer:
    """One host; `shift_ps` is to be added to its times to get those of the common axis."""

    trace: HostTrace
    devices: list[DeviceAnswer]
    marked: Steps | None
    """The steps that its host's own markers tell."""
    shift_ps: int

    @property
    def step_source(self) -> str:
        return ", ".join(dict.fromkeys(device.steps.source for device in self.devices)) or "none"


@dataclass(frozen=True, eq=False)
class Analysed:
    """All hosts. `origin_ns` is the epoch time of the axis' zero, None where there is no axis, or nothing tells it."""

    hosts: list[HostAnswer]
    origin_ns: int | None
    aligned: bool
    """Whether all hosts' times are known on one axis, up to the error of their clocks."""
    shared_ids: bool = False
    """Whether run ids of XLA modules are the same on all devices."""


def analyse(traces: Sequence[HostTrace], *, async_windows: bool = True, edge_steps: bool = True) -> Analysed:
    """Break down every device of every host. `edge_steps=False` leaves out each device's first and last step."""
    origins = [trace.origin_ns for trace in traces]
    known = [origin for origin in origins if origin is not None]
    aligned = len(known) == len(traces) and max(known, default=0) - min(known, default=0) < _FARTHEST_NS
    zero = min(known, default=None)
    shared = ids_are_shared(traces)
    hosts = []
    for trace, origin in zip(traces, origins, strict=True):
        shift = (origin - zero) * 1000 if aligned and origin is not None and zero is not None else 0
        hosts.append(_host(trace, shift, shared, async_windows, edge_steps))
    return Analysed(hosts, zero if aligned else None, aligned, shared)


def _host(trace: HostTrace, shift_ps: int, shared_ids: bool, async_windows: bool, edge_steps: bool) -> HostAnswer:
    marked = host_steps(trace)
    answers = []
    for device in devices_of(trace, async_windows=async_windows):
        steps = device_steps(trace, device, marked, shared_ids=shared_ids)
        if not edge_steps:
            steps = without_edges(steps)
        exclusive = Exclusive(device)
        whole = break_down(exclusive, [device.window[0]], [device.window[1]])[0]
        parts = break_down(exclusive, steps.start, steps.end)
        answers.append(DeviceAnswer(device, exclusive, steps, whole, parts))
    return HostAnswer(trace, answers, marked, shift_ps)


def without_edges(steps: Steps) -> Steps:
    """Without the first and the last step, which a profile may have cut; all of them where there are fewer than three."""
    if len(steps) < 3:
        return replace(
            steps, notes=(*steps.notes, f"all of {len(steps)} steps are kept: without its edges none is left")
        )
    edges = tuple(Dropped(int(steps.number[i]), "first or last of the profile, left out as asked") for i in (0, -1))
    inner = slice(1, -1)
    return replace(
        steps,
        number=steps.number[inner],
        start=steps.start[inner],
        end=steps.end[inner],
        dropped=steps.dropped + edges,
    )
