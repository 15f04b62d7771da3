"""The samples of a trial, as the sampler left them in JSON lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tfscale.suite.monitors.base import Column

Floats = NDArray[np.float64]
Nanoseconds = NDArray[np.int64]


class Window(NamedTuple):
    """The timed window, on the sampler's clock."""

    t0_ns: int
    t1_ns: int

    @property
    def seconds(self) -> float:
        return (self.t1_ns - self.t0_ns) / 1e9


@dataclass(frozen=True, eq=False)
class Series:
    """The samples of one monitor."""

    columns: tuple[Column, ...]
    """All of them, also those that are not ok and have no values."""
    t_ns: Nanoseconds
    """(n,), rising."""
    values: Floats
    """(n, columns); NaN where a column was not sampled then, or could not be read."""
    facts: tuple[tuple[int, dict[str, Any]], ...] = ()
    """(time, facts) whenever they changed."""
    failure: str | None = None
    """Why it ended before the others."""

    def of(self, column: int) -> tuple[Nanoseconds, Floats]:
        """Times and values of one column where it has any."""
        there = ~np.isnan(self.values[:, column])
        return self.t_ns[there], self.values[there, column]


@dataclass(frozen=True)
class Samples:
    """All that one sampler left."""

    monitors: dict[str, Series] = field(default_factory=dict)
    period_s: float | None = None
    end: dict[str, Any] | None = None
    """The sampler's own account of its cost; None where it did not come to write it."""
    damaged: int = 0
    """Lines that could not be read; a torn last one is none."""


def read(path: Path) -> Samples:
    """Read the sampler's lines. Raises OSError where there is no file."""
    lines, damaged = _lines(path.read_bytes())
    start: dict[str, Any] = {}
    end: dict[str, Any] | None = None
    of_monitor: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        if "m" in line:
            of_monitor.setdefault(line["m"], []).append(line)
        else:
            start, end = line.get("sampler", start), line.get("end", end)
    monitors = {name: _series(found) for name, found in of_monitor.items()}
    return Samples(monitors, start.get("period_s"), end, damaged)


def _lines(data: bytes) -> tuple[list[dict[str, Any]], int]:
    *whole, torn = data.split(b"\n")
    lines: list[dict[str, Any]] = []
    damaged = 0
    for text in (*whole, torn):
        try:
            line = msgspec.json.decode(text)
        except msgspec.DecodeError:
            line = None
        if isinstance(line, dict):
            lines.append(line)
        else:
            damaged += text is not torn
    return lines, damaged


def _series(lines: Sequence[Mapping[str, Any]]) -> Series:
    columns = tuple(Column(**column) for line in lines if "columns" in line for column in line["columns"])
    places = [
        np.array(
            [n for n, column in enumerate(columns) if column.state == "ok" and column.slow == slow], dtype=np.int64
        )
        for slow in (False, True)
    ]
    sampled = [line for line in lines if "v" in line and len(line["v"]) == places[line["s"]].size]
    sampled.sort(key=lambda line: int(line["t"]))
    values = np.full((len(sampled), len(columns)), np.nan)
    for row, line in enumerate(sampled):
        values[row, places[line["s"]]] = np.array(line["v"], dtype=np.float64)  # null becomes NaN
    return Series(
        columns=columns,
        t_ns=np.array([line["t"] for line in sampled], dtype=np.int64),
        values=values,
        facts=tuple((line["t"], line["facts"]) for line in lines if "facts" in line),
        failure=next((line["reason"] for line in lines if "reason" in line), None),
    )
