"""The answer as a document: tfscale.trace/1. Integers are picoseconds since `origin_ns`; unknown is null with a reason."""

from collections.abc import Iterator, Sequence
from typing import Any

from tfscale.suite.profiling import against, honesty
from tfscale.suite.profiling.analysed import Analysed, DeviceAnswer, HostAnswer
from tfscale.suite.profiling.breakdown import Parts
from tfscale.suite.profiling.clocks import Clock
from tfscale.suite.profiling.collectives import Collective
from tfscale.suite.profiling.copies import copies
from tfscale.suite.profiling.operations import operations
from tfscale.suite.profiling.schema import SCHEMA
from tfscale.suite.profiling.steps import WINDOW
from tfscale.suite.profiling.stragglers import Verdict
from tfscale.suite.profiling.waits import exposed_wait

Answered = tuple[Analysed, Sequence[Collective]]

KINDS = {
    "measured": "spans, parts, totals, starts, arrivals, durations, counts, bytes",
    "derived": "shares, means a step, waits, bandwidths, start skew, lateness, p values, differences",
}
"""How the numbers of a document came about; xprof's are XProf's own."""


ORIGIN_REASON = (
    "not every file tells when it was captured, or they are too far apart: times of a host count from its own begin, "
    "plus what the ends of collectives tell"
)


def document(
    analysed: Analysed,
    collectives: Sequence[Collective],
    verdict: Verdict,
    *,
    notes: Sequence[str],
    clock: Clock,
    top: int = 15,
) -> dict[str, Any]:
    """Everything of an analysed trace, as plain JSON data."""
    return {
        "schema": SCHEMA,
        "kinds": KINDS,
        "origin_ns": analysed.origin_ns,
        "origin_reason": None if analysed.origin_ns is not None else ORIGIN_REASON,
        "hosts": [_host(host, top) for host in analysed.hosts],
        "collectives": [_collective(one) for one in collectives],
        "start_skew": start_skew(analysed, clock),
        "stragglers": [dict(vars(one)) for one in verdict.stragglers],
        "straggler_verdict": {"answer": verdict.answer, "reason": verdict.reason},
        "honesty": honesty.report(analysed, notes, clock),
    }


def parts(of: Parts) -> dict[str, Any]:
    return {"span_ps": of.span_ps, "parts": dict(of.parts), "totals": dict(of.totals)}


def _host(host: HostAnswer, top: int) -> dict[str, Any]:
    return {
        "host": host.trace.host,
        "files": list(host.trace.files),
        "step_source": host.step_source,
        "devices": [_device(host, device, top) for device in host.devices],
    }


def _device(host: HostAnswer, device: DeviceAnswer, top: int) -> dict[str, Any]:
    steps = device.steps
    return {
        "device": device.device.name,
        "platform": device.device.platform,
        "step_source": steps.source,
        "window": {"start_ps": device.device.window[0] + host.shift_ps, **parts(device.window)},
        "steps": [
            {"step": int(number), "start_ps": int(start) + host.shift_ps, **parts(part)}
            for number, start, part in zip(steps.number, steps.start, device.parts, strict=True)
        ],
        "dropped_steps": [{"step": dropped.step, "reason": dropped.reason} for dropped in steps.dropped],
        "copies": [
            {
                "name": one.name,
                "count": one.number,
                "bytes": one.size,
                "busy_ps": one.busy_ps,
                "bandwidth": one.bandwidth,
            }
            for one in copies(host, device)
        ],
        "operations": [dict(vars(one)) for one in operations(host, device)[:top]],
    }


def _collective(of: Collective) -> dict[str, Any]:
    return {
        "type": of.type,
        "step": of.step,
        "bytes": of.size,
        "members": of.members,
        "seen": of.seen,
        "start_ps": of.start_ps,
        "duration_ps": of.duration_ps,
        "duration_from": of.duration_from,
        "arrivals_ps": dict(of.arrivals_ps),
        "waits_ps": None if of.waits_ps is None else dict(of.waits_ps),
        "waits_bound_ps": of.waits_bound_ps,
        "last": of.last,
        "algorithm_bandwidth": of.algorithm_bandwidth,
        "bus_bandwidth": of.bus_bandwidth,
        "reason": "; ".join(_unknowns(of)) or None,
    }


def _unknowns(of: Collective) -> Iterator[str]:
    """Why values are null."""
    if of.size is None:
        yield "the trace does not tell the size"
    elif of.algorithm_bandwidth is None:
        yield "it has no length"
    elif of.bus_bandwidth is None and of.members is not None:
        yield f"no bus bandwidth is defined for {of.type} of {of.members} ranks"
    if of.members is None or (of.waits_ps is None and of.seen == 1):
        yield f"one rank was seen of {of.members or 'an unknown number'}"
    elif of.waits_ps is None:
        yield "the clocks of the hosts are not known against each other"
    elif of.last is None and of.seen > 1:
        yield "which rank was last is not resolved"


def start_skew(analysed: Analysed, clock: Clock) -> list[dict[str, Any]]:
    """For every step number that several devices have: first and last start, on the common axis.

    Of different hosts only what is beyond the error of their clocks; where that is not known, each host by itself.
    """
    starts: dict[tuple[int, int], dict[str, int]] = {}
    for place, host in enumerate(analysed.hosts):
        for device in host.devices:
            if device.steps.source == WINDOW:
                continue
            for number, start in zip(device.steps.number.tolist(), device.steps.start.tolist(), strict=True):
                among = -1 if clock.bound_ps is not None else place
                at = starts.setdefault((number, among), {})
                at[f"{host.trace.host} {device.device.name}"] = start + host.shift_ps
    error = clock.bound_ps or 0
    return [
        {"step": number, "skew_ps": skew, "first": min(at, key=at.__getitem__), "last": max(at, key=at.__getitem__)}
        for (number, _), at in sorted(starts.items())
        if len(at) > 1 and ((skew := max(at.values()) - min(at.values())) > error or not error)
    ]


def difference(base: Answered, other: Answered) -> list[dict[str, Any]]:
    """One entry a device that both have (by its name, hosts in order; one device each always match)."""
    mine, theirs = _devices(other[0]), _devices(base[0])
    if len(mine) == len(theirs) == 1:
        theirs = {next(iter(mine)): next(iter(theirs.values()))}
    found: list[dict[str, Any]] = []
    for key, (host, device) in mine.items():
        name = f"{host.trace.host} {device.device.name}"
        if key not in theirs:
            found.append({"device": name, "reason": "the base has no such device"})
            continue
        try:
            compared = _compared(base, *theirs[key], other, host, device)
        except ValueError as error:
            found.append({"device": name, "reason": f"not comparable: {error}"})
            continue
        found.append({"device": name, "reason": None, **vars(compared), "sentence": against.sentence(compared)})
    return found


def _compared(
    base: Answered, their_host: HostAnswer, theirs: DeviceAnswer, other: Answered, host: HostAnswer, mine: DeviceAnswer
) -> against.Difference:
    sources = [theirs.steps.source, mine.steps.source]
    if sources.count(WINDOW) == 1:
        raise ValueError(f"a step of one is from {sources[0]}, of the other from {sources[1]}")
    waits = [
        exposed_wait(analysed, one, device, collectives) if _resolved(collectives) else None
        for (analysed, collectives), one, device in ((base, their_host, theirs), (other, host, mine))
    ]
    return against.compare(theirs.parts, mine.parts, *waits)


def _resolved(collectives: Sequence[Collective]) -> bool:
    """Whether what each rank waited is known in all collectives, and there are any."""
    return bool(collectives) and all(one.waits_ps is not None for one in collectives)


def _devices(analysed: Analysed) -> dict[tuple[int, str], tuple[HostAnswer, DeviceAnswer]]:
    return {
        (number, device.device.name): (host, device)
        for number, host in enumerate(analysed.hosts)
        for device in host.devices
        if device.parts
    }
