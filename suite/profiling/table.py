"""One host's trace as columns, whatever file format it came from.

Readers (readers/) make a `HostTrace`; everything after them reads nothing else. Times are int64 picoseconds since the
trace's own origin. Event names and stats are stored once a name: an event holds the number of its name, and what is
told for a name only (an HLO category, a shape) is in `Name.stats`. Stats of single events are decoded when asked for,
because most are never looked at.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Value = int | float | str | bytes


@dataclass(frozen=True)
class Name:
    """What events of one name share."""

    name: str
    display: str = ""
    stats: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """One row of events: a thread, a stream, a derived line. Its events are the rows [first, stop) of the table."""

    plane: str
    name: str
    id: int
    first: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.first

    @property
    def rows(self) -> slice:
        return slice(self.first, self.stop)


class Stats(ABC):
    """Stats of single events, decoded on demand."""

    @abstractmethod
    def of(self, rows: Ints, keys: Sequence[str]) -> dict[str, list[Value | None]]:
        """For each key, the value in each of the events `rows` (row numbers of the table), None where it has none."""

    @abstractmethod
    def integers(self, rows: Ints, key: str, missing: int = -1) -> Ints:
        """The integer stat `key` of many events at once, `missing` where an event has none."""


@dataclass(frozen=True, eq=False)
class HostTrace:
    """The events of one host (one file, as a rule)."""

    host: str
    """As the file says it, made unique among the hosts read together (`name`, `name#2`)."""
    files: tuple[str, ...]
    kind: str
    """xplane or kineto."""
    origin_ns: int | None
    """Epoch nanoseconds of time 0, None where the file does not tell."""
    start_ps: Ints
    duration_ps: Ints
    name: NDArray[np.int32]
    """Number of the event's name in `names`."""
    lines: tuple[Line, ...]
    names: tuple[Name, ...]
    stats: Stats
    facts: Mapping[str, Any] = field(default_factory=dict)
    """hostnames, errors, warnings, planes (all, also those without lines), task_environment, version, ..."""

    @property
    def end_ps(self) -> Ints:
        return self.start_ps + self.duration_ps

    def planes(self) -> list[str]:
        """Names of the planes that have lines, in the order of the file."""
        return list(dict.fromkeys(line.plane for line in self.lines))

    def of_plane(self, plane: str) -> Iterator[Line]:
        return (line for line in self.lines if line.plane == plane)

    def line_of(self, rows: Ints) -> Ints:
        """The place in `lines` of each row's line: (n,)."""
        firsts = np.array([line.first for line in self.lines], np.int64)
        return np.searchsorted(firsts, rows, side="right") - 1

    def rows_on(self, plane: str, name: str) -> Ints:
        """Rows of the lines of that name on a plane; several writers may each have left one."""
        found = [np.arange(line.first, line.stop) for line in self.of_plane(plane) if line.name == name]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def names_of(self, rows: Ints) -> list[str]:
        return [self.names[number].name for number in self.name[rows]]

    def rows_named(self, chosen: NDArray[np.bool_], lines: Sequence[Line]) -> Ints:
        """Rows of `lines` whose name is chosen; `chosen` is a mask over `names`. Sorted by row."""
        found = [line.first + np.flatnonzero(chosen[self.name[line.rows]]) for line in lines if len(line)]
        return np.concatenate(found) if found else np.empty(0, np.int64)


class TraceError(ValueError):
    """A file that is no trace, or not a whole one; the message names the file and, where known, the byte offset."""
