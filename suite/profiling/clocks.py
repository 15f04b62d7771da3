"""One time axis for several hosts: whose clocks are one, and how the offsets of those that are not are known.

Files of one host name share a clock, and their times are as they are: rings over gRPC do not end together, by
milliseconds, so nothing could be better. Between other hosts a profile's begin is known by clocks whose offset is what a
`clock.json` beside the trace says, measured by ping-pong, with its bound; else nobody measured it. All ranks of an NCCL or
TPU collective that moves data to all of them end it at one instant, so the median over collectives of how much later one
host ended is the offset too, and the largest deviation from it is what that may be wrong by. The smaller bound counts.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfscale.suite.profiling.analysed import Analysed
from tfscale.suite.profiling.calls import HLO, NCCL, Call
from tfscale.suite.profiling.table import HostTrace

TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
"""Types that no rank leaves before the last has come. The root of a broadcast does."""
LEAST = 5
"""Collectives that an offset needs: fewer always agree well with their median."""


@dataclass(frozen=True)
class Clock:
    """How the hosts' times were put on one axis, and by what they may be wrong against each other (None: unknown)."""

    source: str
    bound_ps: int | None


@dataclass(frozen=True)
class Refined:
    """What to add to each host's times, by its number, and the error that two hosts may still have."""

    offsets_ps: tuple[int, ...]
    bound_ps: int
    source: str


def clock_numbers(traces: Sequence[HostTrace]) -> list[int]:
    """The number of each host's clock: one for all files of a host name that tell when they were captured."""
    known: dict[Any, int] = {}
    numbers = []
    for place, trace in enumerate(traces):
        names = tuple(trace.facts.get("hostnames", ()))
        key = names if any(names) and trace.origin_ns is not None else place
        numbers.append(known.setdefault(key, len(known)))
    return numbers


def common(analysed: Analysed, calls: Sequence[Call]) -> tuple[Analysed, list[Call], Clock]:
    """The hosts and their calls on one axis, as far as the traces tell it."""
    traces = [host.trace for host in analysed.hosts]
    clocks = clock_numbers(traces)
    if max(clocks, default=0) == 0:
        source = "one file" if len(traces) == 1 else "the same host: one clock"
        return analysed, list(calls), Clock(source, 0)
    told = recorded(traces) if analysed.aligned else None
    known = [axis for axis in (refine(clocks, calls), told) if axis is not None]
    if known:
        best = min(known, key=lambda axis: axis.bound_ps)
        return _moved(analysed, best), _moved_calls(calls, best), Clock(best.source, best.bound_ps)
    if any(trace.origin_ns is None for trace in traces):
        return analysed, list(calls), Clock("none: not every file tells when it was captured", None)
    if not analysed.aligned:
        return analysed, list(calls), Clock("none: the captures are too far apart to be one job's", None)
    source = "profile start times of the hosts' own clocks, whose offset nobody measured"
    return analysed, list(calls), Clock(source, None)


def recorded(traces: Sequence[HostTrace]) -> Refined | None:
    """Offsets by the ping-pong that was recorded beside every trace; None where one has none. Pure.

    Two hosts may be wrong against each other by the sum of their bounds against the reference.
    """
    clocks = [trace.facts.get("clock") for trace in traces]
    if not all(isinstance(clock, dict) for clock in clocks):
        return None
    offsets = tuple(-round(clock["offset_ns"] * 1000) for clock in clocks if clock)
    bounds = sorted(round(clock["bound_ns"] * 1000) for clock in clocks if clock)
    return Refined(offsets, sum(bounds[-2:]), "profile start times, the hosts' clocks compared by ping-pong")


def refine(clocks: Sequence[int], calls: Iterable[Call]) -> Refined | None:
    """Offsets against the first clock; None where one shares fewer than LEAST collectives with it. Pure."""
    ends: dict[tuple[Any, ...], dict[int, int]] = defaultdict(dict)
    for call in calls:
        if call.key[0] in (NCCL, HLO) and call.type in TOGETHER:
            mine = ends[call.key]
            clock = clocks[call.host]
            mine[clock] = max(mine.get(clock, call.end_ps), call.end_ps)
    offsets, spreads, counts = {0: 0}, [0], []
    for clock in range(1, max(clocks, default=0) + 1):
        behind = sorted(mine[0] - mine[clock] for mine in ends.values() if 0 in mine and clock in mine)
        if len(behind) < LEAST:
            return None
        offsets[clock] = behind[len(behind) // 2]
        spreads.append(max(behind[-1] - offsets[clock], offsets[clock] - behind[0]))
        counts.append(len(behind))
    bound = sum(sorted(spreads)[-2:])
    source = f"ends of {min(counts, default=0)} collectives, which all ranks leave together"
    return Refined(tuple(offsets[clock] for clock in clocks), bound, source)


def _moved(analysed: Analysed, refined: Refined) -> Analysed:
    shifted = [
        replace(host, shift_ps=host.shift_ps + offset)
        for host, offset in zip(analysed.hosts, refined.offsets_ps, strict=True)
    ]
    return replace(analysed, hosts=shifted, aligned=True)


def _moved_calls(calls: Iterable[Call], refined: Refined) -> list[Call]:
    moves = refined.offsets_ps
    return [
        replace(call, start_ps=call.start_ps + moves[call.host], end_ps=call.end_ps + moves[call.host])
        for call in calls
    ]
