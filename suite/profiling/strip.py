"""A device's time as a strip: how much of each bin each part took. Few numbers, whatever the number of events. Pure."""

from typing import TypedDict

import numpy as np

from tfscale.suite.profiling.analysed import Analysed, DeviceAnswer, HostAnswer
from tfscale.suite.profiling.intervals import Ints, covered, difference

ROWS = ("compute", "exposed_communication", "hidden_communication", "exposed_copy", "input_wait")
BINS = 600
MOST_STEPS = 3


class Strip(TypedDict):
    """One device over a stretch of time that begins at `start_ps` (common axis); shares of each bin, by row.

    Plain data, as a document is, so that a page needs nothing of ours to draw it.
    """

    device: str
    start_ps: int
    span_ps: int
    shares: dict[str, list[float]]
    edges_ps: list[int]
    """Begins of steps, relative to `start_ps`."""


def strips(analysed: Analysed, bins: int = BINS) -> list[Strip]:
    """The first steps of every device; all on one stretch of time where clocks are common, each its own where not."""
    wanted = [(host, device) for host in analysed.hosts for device in host.devices]
    stretches = [_first_steps(host, device) for host, device in wanted]
    begin = min((start for start, _ in stretches), default=0)
    end = max((stop for _, stop in stretches), default=0)
    longest = max((stop - start for start, stop in stretches), default=0)
    together = analysed.aligned and end - begin <= 2 * longest
    return [
        _strip(host, device, (begin, end) if together else stretch, bins)
        for (host, device), stretch in zip(wanted, stretches, strict=True)
    ]


def _first_steps(host: HostAnswer, device: DeviceAnswer) -> tuple[int, int]:
    last = min(MOST_STEPS, len(device.steps)) - 1
    return int(device.steps.start[0]) + host.shift_ps, int(device.steps.end[last]) + host.shift_ps


def _strip(host: HostAnswer, device: DeviceAnswer, stretch: tuple[int, int], bins: int) -> Strip:
    start, end = stretch[0] - host.shift_ps, stretch[1] - host.shift_ps
    edges: Ints = start + (np.arange(bins + 1, dtype=np.int64) * (end - start)) // bins
    width = np.maximum(np.diff(edges), 1)
    parts = dict(device.exclusive.parts)
    parts["hidden_communication"] = difference(device.device.communication, parts["exposed_communication"])
    steps = device.steps.start[(device.steps.start >= start) & (device.steps.start < end)]
    return Strip(
        device=f"{host.trace.host} {device.device.name}",
        start_ps=stretch[0],
        span_ps=end - start,
        shares={row: [float(s) for s in covered(parts[row], edges[:-1], edges[1:]) / width] for row in ROWS},
        edges_ps=[int(step) - start for step in steps],
    )
