"""The answer as a document: tfscale.trace/1. Integers are picoseconds since `origin_ns`; unknown is null with a reason."""

from collections.abc import Sequence
from typing import Any

from tfscale.suite.profiling import against, honesty
from tfscale.suite.profiling.analysed import Analysed, DeviceAnswer, HostAnswer
from tfscale.suite.profiling.breakdown import Parts
from tfscale.suite.profiling.collectives import Collective
from tfscale.suite.profiling.copies import copies
from tfscale.suite.profiling.operations import Operation, operations
from tfscale.suite.profiling.schema import SCHEMA
from tfscale.suite.profiling.stragglers import Verdict

KINDS = {
    "measured": "spans, parts, totals, starts, arrivals, durations, counts, bytes",
    "derived": "shares, means a step, waits, bandwidths, start skew, lateness, p values, differences",
}
"""How the numbers of a document came about; xprof's are XProf's own."""


def document(
    analysed: Analysed,
    collectives: Sequence[Collective],
    verdict: Verdict,
    *,
    notes: Sequence[str],
    bound_ps: int | None,
    clock: str,
    top: int = 15,
) -> dict[str, Any]:
    """Everything of an analysed trace, as plain JSON data."""
    return {
        "schema": SCHEMA,
        "kinds": KINDS,
        "origin_ns": analysed.origin_ns,
        "origin_reason": None if analysed.origin_ns is not None else "no file tells when it was captured",
        "hosts": [_host(host, top) for host in analysed.hosts],
        "collectives": [_collective(one) for one in collectives],
        "start_skew": start_skew(analysed),
        "stragglers": [_straggler(one) for one in verdict.stragglers],
        "straggler_verdict": {"answer": verdict.answer, "reason": verdict.reason},
        "honesty": honesty.report(analysed, notes, bound_ps, clock),
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
        "operations": [_operation(one) for one in operations(host, device)[:top]],
    }


def _operation(of: Operation) -> dict[str, Any]:
    return {
        "name": of.name,
        "kind": of.kind,
        "count": of.count,
        "total_ps": of.total_ps,
        "self_ps": of.self_ps,
        "share": of.share,
        "per_step_ps": of.per_step_ps,
        "shape": of.shape,
    }


def _collective(of: Collective) -> dict[str, Any]:
    return {
        "type": of.type,
        "step": of.step,
        "bytes": of.size,
        "members": of.members,
        "start_ps": of.start_ps,
        "duration_ps": of.duration_ps,
        "duration_from": of.duration_from,
        "arrivals_ps": dict(of.arrivals_ps),
        "waits_ps": None if of.waits_ps is None else dict(of.waits_ps),
        "last": of.last,
        "algorithm_bandwidth": of.algorithm_bandwidth,
        "bus_bandwidth": of.bus_bandwidth,
        "reason": None if of.size is not None else "the trace does not tell the size",
    }


def _straggler(of: Any) -> dict[str, Any]:
    return {
        "rank": of.rank,
        "lateness_ps": of.lateness_ps,
        "share": of.share,
        "p": of.p,
        "steps": of.steps,
        "cause": of.cause,
        "causes_ps": of.causes_ps,
    }


def start_skew(analysed: Analysed) -> list[dict[str, Any]]:
    """For every step number that several devices have: first and last start, on the common axis."""
    starts: dict[int, dict[str, int]] = {}
    for host in analysed.hosts:
        for device in host.devices:
            if device.steps.source == "whole window":
                continue
            for number, start in zip(device.steps.number.tolist(), device.steps.start.tolist(), strict=True):
                starts.setdefault(number, {})[f"{host.trace.host} {device.device.name}"] = start + host.shift_ps
    comparable = analysed.aligned or len(analysed.hosts) == 1
    return [
        {
            "step": number,
            "skew_ps": max(at.values()) - min(at.values()),
            "first": min(at, key=lambda name: at[name]),
            "last": max(at, key=lambda name: at[name]),
        }
        for number, at in sorted(starts.items())
        if len(at) > 1 and comparable
    ]


def difference(base: Analysed, other: Analysed) -> list[dict[str, Any]]:
    """One entry a device that both have (by its name, hosts in order; one device each always match)."""
    mine, theirs = _devices(other), _devices(base)
    if len(mine) == len(theirs) == 1:
        theirs = {next(iter(mine)): next(iter(theirs.values()))}
    found: list[dict[str, Any]] = []
    for key, (name, device) in mine.items():
        if key not in theirs:
            found.append({"device": name, "reason": "the base has no such device"})
            continue
        compared = against.compare(theirs[key][1].parts, device.parts)
        found.append({"device": name, "reason": None, **vars(compared), "sentence": against.sentence(compared)})
    return found


def _devices(analysed: Analysed) -> dict[tuple[int, str], tuple[str, DeviceAnswer]]:
    return {
        (number, device.device.name): (f"{host.trace.host} {device.device.name}", device)
        for number, host in enumerate(analysed.hosts)
        for device in host.devices
        if device.parts
    }
