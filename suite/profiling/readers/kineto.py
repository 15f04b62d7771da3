"""Kineto and other Chrome trace JSON (`.json`, `.json.gz`): PyTorch's profiler, and whatever writes the same format.

Time stamps are decimal microseconds; they are read as decimals, because at epoch times a float64 keeps only a quarter
of a microsecond.
"""

import decimal
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np

from tfscale.suite.profiling.table import HostTrace, Ints, Line, Name, Stats, TraceError, Value

HOST = "/host:CPU"
_PS = Decimal(10**6)
_DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
_LAUNCH_KEYS = {"correlation_id": "correlation", "correlation": "correlation"}
_EPOCH_US = Decimal(10**14)
_LATEST_PS = Decimal(2**62)
_CONTEXT = decimal.Context(prec=28, traps=[])
"""What overflows is infinite and is refused as a time, instead of an error of its own."""
_LATEST_US = Decimal(10**16)
"""Time stamps beyond this (the year 2286) are none, and their digits would fill the memory."""


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str | None = None
    name: Any = ""
    pid: Any = None
    tid: Any = None
    ts: Decimal | None = None
    dur: Decimal | None = None
    args: msgspec.Raw = msgspec.Raw()


class _Document(msgspec.Struct):
    traceEvents: list[_Event]
    deviceProperties: Any = None
    distributedInfo: Any = None
    baseTimeNanoseconds: int | None = None
    schemaVersion: Any = None


def read(data: bytes, file: str) -> HostTrace:
    """The trace in the bytes of one JSON document. Raises TraceError."""
    document = _decoded(data, file)
    with decimal.localcontext(_CONTEXT):
        events, left_out = _complete(document.traceEvents)
        if not events:
            raise TraceError(f"{file}: a trace without complete events (ph X, or B and E)")
        return _table(events, document, file, left_out)


def _decoded(data: bytes, file: str) -> _Document:
    try:
        if data.lstrip()[:1] == b"[":
            return _Document(msgspec.json.decode(data, type=list[_Event]))
        return msgspec.json.decode(data, type=_Document)
    except (msgspec.DecodeError, RecursionError) as error:
        place = re.search(r"byte (\d+)", str(error))
        offset = place[1] if place else len(data) if "truncated" in str(error) else None
        at = f"at byte {offset} of {len(data)}: " if offset is not None else ""
        raise TraceError(f"{file}: not a Chrome trace: {at}{error}") from error


def _complete(events: Sequence[_Event]) -> tuple[list[_Event], int]:
    """Events with a beginning and a length: `X`, and pairs of `B` and `E` on one thread (the innermost ends first); and
    how many begin without an end, end without a begin, or have no time."""
    found: list[_Event] = []
    left_out = 0
    open_: dict[tuple[str, str], list[_Event]] = {}
    for event in events:
        if event.ph == "X":
            if event.ts is not None:
                found.append(event)
            else:
                left_out += 1
        elif event.ph == "B":
            open_.setdefault((str(event.pid), str(event.tid)), []).append(event)
        elif event.ph == "E":
            begun = open_.get((str(event.pid), str(event.tid)))
            start = begun.pop() if begun else None
            if start is not None and start.ts is not None and event.ts is not None:
                start.dur = event.ts - start.ts
                found.append(start)
            else:
                left_out += 1
    return found, left_out + sum(map(len, open_.values()))


def _table(events: list[_Event], document: _Document, file: str, left_out: int) -> HostTrace:
    places = [_place(event) for event in events]
    order = sorted(range(len(events)), key=lambda i: places[i])
    base = min(event.ts for event in events if event.ts is not None)
    if not (abs(base) <= _LATEST_US and abs(document.baseTimeNanoseconds or 0) <= _LATEST_US * 1000):
        raise TraceError(f"{file}: times that begin at {str(base)[:40]} us: no clock shows that")
    start, duration = _times(events, order, base, file)
    numbers: dict[tuple[str, str], int] = {}
    name = np.empty(len(events), np.int32)
    for row, i in enumerate(order):
        event = events[i]
        name[row] = numbers.setdefault((str(event.name), event.cat or ""), len(numbers))
    info = document.distributedInfo if isinstance(document.distributedInfo, dict) else {}
    rank = info.get("rank")
    return HostTrace(
        host=f"rank {rank}" if isinstance(rank, int) and abs(rank) < 2**63 else "unknown host",
        files=(file,),
        kind="kineto",
        origin_ns=_origin(base, document.baseTimeNanoseconds),
        start_ps=start,
        duration_ps=duration,
        name=name,
        lines=tuple(_lines([places[i] for i in order])),
        names=tuple(Name(text, stats={"cat": category}) for text, category in numbers),
        stats=JsonStats([events[i].args for i in order], file),
        facts={
            "planes": list(dict.fromkeys(place[0] for place in places)),
            "hostnames": [],
            "errors": [],
            "warnings": [],
            "notes": [f"{left_out} events have no begin or no end, and are left out"] if left_out else [],
            "task_environment": {},
            "distributed": info,
            "devices": document.deviceProperties if isinstance(document.deviceProperties, list) else [],
        },
    )


def _origin(base: Decimal, base_ns: int | None) -> int | None:
    """Epoch nanoseconds of the time stamp `base` (us): itself, or counted from `baseTimeNanoseconds`."""
    if base_ns is not None:
        return int(base * 1000) + base_ns
    return int(base * 1000) if base > _EPOCH_US else None


def _place(event: _Event) -> tuple[str, str]:
    """(plane, line) of an event: streams of a GPU, threads of a host."""
    if event.cat in _DEVICE_CATEGORIES:
        args = _arguments(event.args)
        device, stream = args.get("device", event.pid), args.get("stream", event.tid)
        return f"/device:GPU:{device}", f"Stream #{stream}"
    return HOST, f"{event.pid}/{event.tid}"


def _times(events: list[_Event], order: list[int], base: Decimal, file: str) -> tuple[Ints, Ints]:
    start, duration = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    for row, i in enumerate(order):
        event = events[i]
        assert event.ts is not None
        begin, length = (event.ts - base) * _PS, (event.dur or Decimal(0)) * _PS
        if not (0 <= begin < _LATEST_PS and 0 <= length < _LATEST_PS):
            raise TraceError(f"{file}: event {event.name!r} at {event.ts} us for {event.dur} us: no clock shows that")
        start[row], duration[row] = int(begin), int(length)
    return start, duration


def _lines(places: list[tuple[str, str]]) -> list[Line]:
    """The lines of events that are sorted by place."""
    lines: list[Line] = []
    first = 0
    for row in range(1, len(places) + 1):
        if row == len(places) or places[row] != places[first]:
            plane, name = places[first]
            lines.append(Line(plane, name, len(lines), first, row))
            first = row
    return lines


def _arguments(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(raw) if bytes(raw) else {}
    except msgspec.DecodeError:  # the document was decoded, so this is a number beyond all ranges at worst
        return {}
    return found if isinstance(found, dict) else {}


class JsonStats(Stats):
    """The `args` of Chrome events, decoded when asked for. `correlation_id` is Kineto's `correlation`."""

    def __init__(self, args: list[msgspec.Raw], file: str) -> None:
        self._args, self._file = args, file

    def of(self, rows: Ints, keys: Sequence[str]) -> dict[str, list[Value | None]]:
        decoded = [_arguments(self._args[row]) for row in rows.tolist()]
        return {key: [_plain(args.get(_LAUNCH_KEYS.get(key, key))) for args in decoded] for key in keys}

    def integers(self, rows: Ints, key: str, missing: int = -1) -> Ints:
        own = _LAUNCH_KEYS.get(key, key)
        pattern = re.compile(rb'"' + re.escape(own.encode()) + rb'"\s*:\s*(-?\d+)\b(?![.\d])')
        values = np.full(rows.size, missing, np.int64)
        for i, row in enumerate(rows.tolist()):
            found = pattern.search(self._args[row])
            if found and abs(number := int(found[1])) < 2**63:
                values[i] = number
        return values


def _plain(value: Any) -> Value | None:
    if value is None or isinstance(value, int | float | str):
        return value
    return msgspec.json.encode(value).decode()
