"""How much of a device's exposed communication is waiting for the last rank to arrive. Pure."""

from collections.abc import Sequence

from tfscale.suite.profiling.analysed import Analysed, DeviceAnswer, HostAnswer
from tfscale.suite.profiling.calls import rank_name
from tfscale.suite.profiling.collectives import ANONYMOUS, Collective
from tfscale.suite.profiling.intervals import EMPTY, Spans, covered, intersection, union


def exposed_wait(
    analysed: Analysed, host: HostAnswer, device: DeviceAnswer, collectives: Sequence[Collective]
) -> list[int]:
    """For each step of a device: exposed communication before the last rank had arrived, picoseconds."""
    rank = rank_name(analysed, host, device)
    begins, ends = [], []
    for one in collectives:
        for name, wait in (one.waits_ps or {}).items():
            if name == rank or name.startswith((f"{rank} replica ", f"{rank}{ANONYMOUS}")):
                begins.append(one.arrivals_ps[name] - host.shift_ps)
                ends.append(one.arrivals_ps[name] - host.shift_ps + wait)
    waiting: Spans = union(begins, ends) if begins else EMPTY
    exposed = intersection(device.exclusive.parts["exposed_communication"], waiting)
    return [int(ps) for ps in covered(exposed, device.steps.start, device.steps.end)]
