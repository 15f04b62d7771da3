"""XPlane files (`*.xplane.pb`) of TensorFlow, JAX and PyTorch/XLA, from CPUs, GPUs and TPUs, since 2020."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tfscale.suite.profiling.readers import wire, xspace
from tfscale.suite.profiling.readers.xspace import text
from tfscale.suite.profiling.table import HostTrace, Ints, Line, Name, Stats, TraceError, Value

TASK_ENVIRONMENT = "Task Environment"
_EPOCH_NS = 10**17
"""Line time stamps above this (1973) are epoch times; below, they count from the start of the profile."""
_LATEST_PS = 2**62
_CHUNK = 1 << 18
_COLUMN_TAGS = (1 << 3, 2 << 3, 3 << 3)
_STATS_TAG, _COUNT_TAG = 4 << 3 | 2, 5 << 3


def read(data: bytes, file: str) -> HostTrace:
    """The trace in the bytes of one file. Raises TraceError."""
    space = xspace.parse(data, file)
    if not space.planes:
        raise TraceError(f"{file}: an XSpace without planes: nothing was traced, or it is another kind of file")
    reading = _Reading(file)
    for plane in space.planes:
        reading.plane(plane)
    facts = {
        "planes": [text(plane.name) for plane in space.planes],
        "hostnames": [text(name) for name in space.hostnames],
        "errors": [text(error) for error in space.errors],
        "warnings": [text(warning) for warning in space.warnings],
        "task_environment": reading.task,
        "plane_stats": reading.plane_stats,
    }
    return reading.trace(facts)


class _Reading:
    """What is gathered while planes are gone through."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: list[Line] = []
        self.stamps: list[int] = []
        self.names: list[Name] = []
        self.keys: list[dict[int, str]] = []
        self.key_of_line: list[int] = []
        self.task: dict[str, Value] = {}
        self.plane_stats: dict[str, dict[str, Value]] = {}
        self.pool = bytearray()
        self.bounds = [np.zeros(1, np.int64)]
        self.columns: list[tuple[Ints, Ints, Ints]] = []
        self.rows = 0

    def plane(self, plane: Any) -> None:
        keys = {entry.key: text(entry.value.name) for entry in plane.stat_metadata}
        name = text(plane.name)
        stats = dict(_stats(plane.stats, keys))
        if stats:
            self.plane_stats[name] = stats
        if name == TASK_ENVIRONMENT:
            self.task = stats
        numbers = self._names(plane, keys)
        self.keys.append(keys)
        for line in plane.lines:
            self._line(line, name, numbers)

    def _names(self, plane: Any, keys: dict[int, str]) -> tuple[Ints, Ints]:
        """(sorted metadata ids, their numbers in `names`); the last number is for ids that are not described."""
        entries = {entry.key: entry.value for entry in plane.event_metadata}
        base = len(self.names)
        ordered = sorted(entries)
        for key in ordered:
            described = entries[key]
            stats = dict(_stats(described.stats, keys))
            self.names.append(Name(text(described.name), text(described.display_name), stats))
        self.names.append(Name("(no name)"))
        return np.array(ordered, np.int64), np.arange(base, base + len(ordered) + 1)

    def _line(self, line: Any, plane: str, numbers: tuple[Ints, Ints]) -> None:
        raw = list(line.events)
        lengths = np.fromiter(map(len, raw), np.int64, len(raw))
        base = len(self.pool)
        self.pool += b"".join(raw)
        bounds = base + np.cumsum(lengths)
        self.bounds.append(bounds)
        name = text(line.display_name) or text(line.name)
        self.lines.append(Line(plane, name, int(line.id), self.rows, self.rows + len(raw)))
        self.stamps.append(int(line.timestamp_ns))
        self.key_of_line.append(len(self.keys) - 1)
        self.rows += len(raw)
        self.columns.append(self._events(bounds - lengths - base, bounds - base, base, numbers))

    def _events(self, start: Ints, end: Ints, base: int, numbers: tuple[Ints, Ints]) -> tuple[Ints, Ints, Ints]:
        """(name, offset, duration) of one line's events, chunk by chunk so that memory stays bounded."""
        buffer = wire.buffer_of(bytes(memoryview(self.pool)[base:]))
        parts = []
        for first in range(0, start.size, _CHUNK):
            chosen = slice(first, first + _CHUNK)
            try:
                parts.append(_columns(buffer, start[chosen], end[chosen]))
            except wire.WireError as error:
                raise TraceError(f"{self.file}: a damaged event in a line of {start.size} events: {error}") from error
        if not parts:
            return (np.empty(0, np.int64),) * 3
        metadata, offset, duration = (np.concatenate(column) for column in zip(*parts, strict=True))
        known, number = numbers
        where = np.searchsorted(known, metadata)
        where[where == known.size] = known.size - 1 if known.size else 0
        found = known[where] == metadata if known.size else np.zeros(metadata.size, bool)
        return np.where(found, number[where], number[-1]), offset, duration

    def trace(self, facts: dict[str, Any]) -> HostTrace:
        used = [i for i, line in enumerate(self.lines) if len(line)]
        stamps = [self.stamps[i] for i in used]
        profile_start = self.task.get("profile_start_time")
        epoch = bool(stamps) and min(stamps) > _EPOCH_NS
        zero_ns = min(stamps) if epoch else 0
        starts = np.empty(self.rows, np.int64)
        for line, stamp, columns in zip(self.lines, self.stamps, self.columns, strict=True):
            offset_ps = (stamp - zero_ns) * 1000
            if len(line) and not (abs(offset_ps) < _LATEST_PS and (np.abs(columns[1]) < _LATEST_PS).all()):
                raise TraceError(f"{self.file}: line {line.name!r} of {line.plane} has times that no clock shows")
            starts[line.rows] = offset_ps + columns[1]
        joined = [np.concatenate(column) for column in zip(*self.columns, strict=True)] if self.columns else []
        name, _, duration = joined or [np.empty(0, np.int64)] * 3
        if (duration < 0).any() or (duration >= _LATEST_PS).any():
            raise TraceError(f"{self.file}: an event of a length that no clock shows ({int(duration.min())} ps)")
        origin = zero_ns if epoch else int(profile_start) if isinstance(profile_start, int) else None
        return HostTrace(
            host=(facts["hostnames"] or ["unknown host"])[0],
            files=(self.file,),
            kind="xplane",
            origin_ns=origin,
            start_ps=starts,
            duration_ps=duration,
            name=name.astype(np.int32),
            lines=tuple(self.lines),
            names=tuple(self.names),
            stats=XStats(self),
            facts=facts,
        )


def _columns(buffer: wire.Bytes, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """metadata_id, offset_ps, duration_ps of events: (n,) each, 0 where a field is absent.

    Every writer puts the fields in the order of their numbers, so three look-ups do; the rest of an event is its stats.
    An event that begins or goes on in any other way is decoded field by field.
    """
    position = start.astype(np.int64)
    columns = [np.zeros(start.size, np.int64) for _ in _COLUMN_TAGS]
    for column, tag in zip(columns, _COLUMN_TAGS, strict=True):
        rows = np.flatnonzero((position < end) & (buffer[position] == tag))
        column[rows], position[rows] = wire.varints(buffer, position[rows] + 1)
    following = buffer[position]
    unordered = (start < end) & (buffer[start] != _COLUMN_TAGS[0])
    irregular = (position < end) & (following != _STATS_TAG) & (following != _COUNT_TAG)
    odd = np.flatnonzero((position > end) | unordered | irregular)
    if odd.size:
        found = wire.fields(buffer, start[odd], end[odd])
        for number, column in enumerate(columns, 1):
            chosen = (found.number == number) & (found.kind == wire.VARINT)
            column[odd] = 0
            column[odd[found.message[chosen]]] = found.value[chosen]
    return columns[0], columns[1], columns[2]


def _stats(stats: Any, keys: dict[int, str]) -> Iterator[tuple[str, Value]]:
    for stat in stats:
        key = keys.get(stat.metadata_id, f"stat {stat.metadata_id}")
        for field in xspace.STAT_VALUES:
            if stat.HasField(field):
                yield key, _value(getattr(stat, field), field, keys)
                break


def _value(value: Any, field: str, keys: dict[int, str]) -> Value:
    if field == "ref_value":
        return keys.get(value, "")
    found: Value = text(value) if field == "str_value" else value
    return found


class XStats(Stats):
    """Stats of XPlane events, decoded from the bytes that were kept."""

    def __init__(self, reading: _Reading) -> None:
        self._file = reading.file
        self._pool = bytes(reading.pool)
        self._bounds = np.concatenate(reading.bounds)
        self._firsts = np.array([line.first for line in reading.lines], np.int64)
        self._keys_of_line = [reading.keys[number] for number in reading.key_of_line]

    def of(self, rows: Ints, keys: Sequence[str]) -> dict[str, list[Value | None]]:
        event_class = xspace.message_class("Event")
        found: dict[str, list[Value | None]] = {key: [] for key in keys}
        lines = np.searchsorted(self._firsts, rows, side="right") - 1
        for row, line in zip(rows.tolist(), lines.tolist(), strict=True):
            raw = self._pool[self._bounds[row] : self._bounds[row + 1]]
            try:
                event = event_class.FromString(raw)
            except DecodeError as error:
                raise TraceError(f"{self._file}: event {row} has damaged stats") from error
            stats = dict(_stats(event.stats, self._keys_of_line[line]))
            for key, values in found.items():
                values.append(stats.get(key))
        return found

    def integers(self, rows: Ints, key: str, missing: int = -1) -> Ints:
        values = np.full(rows.size, missing, np.int64)
        lines = np.searchsorted(self._firsts, rows, side="right") - 1
        for keys in {id(known): known for known in self._keys_of_line}.values():
            wanted = [number for number, name in keys.items() if name == key]
            mine = np.array([known is keys for known in self._keys_of_line], bool)
            chosen = np.flatnonzero(mine[lines]) if wanted else np.empty(0, np.int64)
            for first in range(0, chosen.size, _CHUNK):
                part = chosen[first : first + _CHUNK]
                try:
                    values[part] = self._integers(rows[part], wanted, missing)
                except wire.WireError as error:
                    raise TraceError(f"{self._file}: events with damaged stats: {error}") from error
        return values

    def _integers(self, rows: Ints, wanted: list[int], missing: int) -> Ints:
        values = np.full(rows.size, missing, np.int64)
        start, end = self._bounds[rows], self._bounds[rows + 1]
        base = int(start.min())
        buffer = wire.buffer_of(self._pool[base : int(end.max())])
        events = wire.fields(buffer, start - base, end - base)
        is_stat = np.flatnonzero((events.number == 4) & (events.kind == wire.BYTES))
        begin = events.value[is_stat]
        inner = wire.fields(buffer, begin, begin + events.length[is_stat])
        is_key = (inner.number == 1) & np.isin(inner.value, wanted)
        ours = np.zeros(is_stat.size, bool)
        ours[inner.message[is_key]] = True
        is_value = np.isin(inner.number, (3, 4)) & ours[inner.message] & (inner.kind == wire.VARINT)
        values[events.message[is_stat[inner.message[is_value]]]] = inner.value[is_value]
        return values
