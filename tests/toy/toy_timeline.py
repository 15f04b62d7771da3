"""A declared timeline as an XSpace protobuf, so that a test knows the answer by construction. Times in microseconds.

    space = Timeline(host="a", start_ns=10**18)
    space.line("/host:CPU", "python", [E("train", 0, 100, step_num=0, _r=1)])
    space.line("/device:GPU:0", "Stream #7(Kernel)", [E("gemm", 20, 30, correlation_id=1)])
    data = space.bytes()

It builds messages with the protobuf library and shares nothing with the reader's decoding. Not a test module.
"""

from dataclasses import dataclass, field
from typing import Any

from tfscale.suite.profiling.readers.xspace import message_class

PS = 1_000_000
"""Picoseconds in a microsecond."""


@dataclass
class E:
    """One event: begin and length in microseconds; keywords are stats (int, str, float, bytes, or Ref)."""

    name: str
    start: float
    length: float
    stats: dict[str, Any] = field(default_factory=dict)

    def __init__(self, name: str, start: float, length: float, **stats: Any) -> None:
        self.name, self.start, self.length, self.stats = name, start, length, stats


@dataclass(frozen=True)
class Ref:
    """A string stat that is stored as the name of another stat."""

    text: str


class Timeline:
    """Planes, lines and events in the order in which they are added."""

    def __init__(
        self, host: str = "host", start_ns: int | None = 10**18, stop_ns: int | None = None, epoch_lines: bool = False
    ) -> None:
        """`epoch_lines`: line time stamps are epoch times, as old writers have them; else they count from the start."""
        self._space = message_class("Space")()
        if host:
            self._space.hostnames.append(host.encode())
        self._base_ns = (start_ns or 0) if epoch_lines else 0
        if start_ns is not None and not epoch_lines:
            environment = self._plane("Task Environment")
            self._stat(environment, environment.stats.add(), "profile_start_time", start_ns)
            self._stat(environment, environment.stats.add(), "profile_stop_time", stop_ns or start_ns + 10**9)

    def line(
        self,
        plane: str,
        name: str,
        events: list[E],
        *,
        id: int = 0,
        timestamp_us: int = 0,
        of_name: dict[str, dict[str, Any]] | None = None,
    ) -> "Timeline":
        """Add a line; events count from `timestamp_us`. `of_name`: stats that all events of a name share."""
        found = self._plane(plane)
        line = found.lines.add(id=id, name=name.encode(), timestamp_ns=self._base_ns + timestamp_us * 1000)
        for event in events:
            encoded = message_class("Event")(
                metadata_id=self._event_id(found, event.name, (of_name or {}).get(event.name, {})),
                offset_ps=round(event.start * PS),
                duration_ps=round(event.length * PS),
            )
            for key, value in event.stats.items():
                self._stat(found, encoded.stats.add(), key, value)
            line.events.append(encoded.SerializeToString())
        return self

    def plane(self, name: str, **stats: Any) -> "Timeline":
        """Add a plane without lines, or stats to one."""
        found = self._plane(name)
        for key, value in stats.items():
            self._stat(found, found.stats.add(), key, value)
        return self

    def complain(self, *, errors: tuple[str, ...] = (), warnings: tuple[str, ...] = ()) -> "Timeline":
        self._space.errors.extend(text.encode() for text in errors)
        self._space.warnings.extend(text.encode() for text in warnings)
        return self

    def bytes(self) -> bytes:
        data: bytes = self._space.SerializeToString()
        return data

    def _plane(self, name: str) -> Any:
        found = next((plane for plane in self._space.planes if plane.name == name.encode()), None)
        return found if found is not None else self._space.planes.add(name=name.encode(), id=len(self._space.planes))

    @staticmethod
    def _event_id(plane: Any, name: str, stats: dict[str, Any]) -> int:
        for entry in plane.event_metadata:
            if entry.value.name == name.encode():
                return int(entry.key)
        key = len(plane.event_metadata) + 1
        entry = plane.event_metadata.add(key=key)
        entry.value.id, entry.value.name = key, name.encode()
        for stat, value in stats.items():
            Timeline._stat(plane, entry.value.stats.add(), stat, value)
        return key

    @staticmethod
    def _stat_id(plane: Any, name: str) -> int:
        for entry in plane.stat_metadata:
            if entry.value.name == name.encode():
                return int(entry.key)
        key = len(plane.stat_metadata) + 1
        entry = plane.stat_metadata.add(key=key)
        entry.value.id, entry.value.name = key, name.encode()
        return key

    @staticmethod
    def _stat(plane: Any, stat: Any, key: str, value: Any) -> None:
        stat.metadata_id = Timeline._stat_id(plane, key)
        if isinstance(value, Ref):
            stat.ref_value = Timeline._stat_id(plane, value.text)
        elif isinstance(value, str):
            stat.str_value = value.encode()
        elif isinstance(value, bytes):
            stat.bytes_value = value
        elif isinstance(value, float):
            stat.double_value = value
        elif value < 0:
            stat.int64_value = value
        else:
            stat.uint64_value = value
