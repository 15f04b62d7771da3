"""The tables in the text that nccl-tests print."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tfscale.suite.benchforms import Operation
from tfscale.suite.formats.base import FormatError, Given, number_of

OPERATIONS: dict[str, Operation] = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
}
"""nccl-tests' name -> ours."""
REDUCTIONS = ("sum", "prod", "min", "max", "avg", "mulsum")
_SHORTEST, _LONGEST = 1e-3, 1e12
"""Microseconds that a time may be: a nanosecond, twelve days."""
_DIGITS = 18
"""Of a size or count: more are no bytes of this world."""
PLACES = ("out-of-place", "in-place")
_PREFIX = re.compile(r"\s*(?P<prefix>\[\d+(?:,\d+)*\](?:<std(?:out|err)>)?:?|[\w.-]+:(?=\s)|>(?=\s))\s*")
_PROGRAM = re.compile(r"(?P<operation>[a-z_]+)_perf(?:_mpi)?\b")
_RANK = re.compile(
    r"#\s+Rank\s+\d+\s+(?:Group\s+(?P<group>\d+)\s+)?Pid\s+\d+\s+on\s+(?P<host>\S+)\s+device\s+\d+\s+\[[^\]]*\]\s*(?P<gpu>.*)"
)
_SETTING = re.compile(r"(?P<name>[A-Za-z][A-Za-z ]*?):? +(?P<value>\d+(?:\(\w+\))?)(?: |$)")
_HEADER = re.compile(r"#\s*size\s+.*\balgbw\b")
_ROW = re.compile(r"\d+\s+\d+\s+[a-z]")


@dataclass(frozen=True)
class Measured:
    """One placement of one row."""

    place: str
    microseconds: float
    time_digit: float
    """Value of half the last digit of the time as printed."""
    bus: float
    """As printed, GB/s."""
    bus_digit: float
    """Value of the last digit of it."""
    wrong: int | None
    deviation: float | None
    """Old layouts: the largest relative deviation, in place of wrong elements."""


@dataclass(frozen=True)
class Cells:
    """One row."""

    line: int
    size: int
    count: int
    dtype: str
    reduction: str | None
    places: dict[str, Measured]


@dataclass
class Table:
    """One table, and what stood above it."""

    operation: str
    line: int
    columns: list[str]
    ranks: int
    hosts: int
    names: tuple[str, ...]
    devices: tuple[str, ...]
    iterations: int | None
    settings: dict[str, str]
    rows: list[Cells] = field(default_factory=list)

    @property
    def places(self) -> list[Measured]:
        return [measured for row in self.rows for measured in row.places.values()]


@dataclass
class _Stream:
    """What the lines with one prefix said so far."""

    operation: str | None = None
    ranks: list[tuple[str, str, str]] = field(default_factory=list)
    """Group, host and GPU of each rank."""
    settings: dict[str, str] = field(default_factory=dict)
    table: Table | None = None


def tables_of(given: Given, text: str) -> list[Table]:
    """Every table in `text`. Raises FormatError where there is none, or where one cannot be understood."""
    streams: dict[str, _Stream] = {}
    last: str | None = None
    tables = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _PREFIX.match(line)
        stream = streams.setdefault(match["prefix"] if match else "", _Stream())
        rest = line[match.end() if match else 0 :].strip()
        if program := _PROGRAM.search(rest):
            stream.operation = last = program["operation"]
        if rank := _RANK.match(rest):
            stream.ranks.append((rank["group"] or "0", rank["host"], rank["gpu"].strip()))
        elif rest.startswith("# nThread"):
            stream.settings = {m["name"].strip(): m["value"] for m in _SETTING.finditer(rest[1:].strip())}
            stream.ranks, stream.table = [], None
        elif _HEADER.match(rest):
            stream.table = _table(given, number, rest, stream, last)
            tables.append(stream.table)
        elif stream.table is not None and _ROW.match(rest):
            stream.table.rows.append(_cells(given, number, stream.table, rest.split()))
    if not tables:
        raise given.fail("no table of nccl-tests in it: a header `# size count type ... algbw busbw` is expected")
    return tables


def _table(given: Given, number: int, header: str, stream: _Stream, last: str | None) -> Table:
    operation = given.options.get("operation") or stream.operation or last
    if operation is None and (named := _PROGRAM.search(given.name) or re.match(r"([a-z_]+)", given.name)):
        operation = named[1].strip("_")
    if operation not in OPERATIONS:
        said = f"{operation!r} was timed" if stream.operation or last else "the text does not say what was timed"
        raise given.fail(f"{said}; --option operation= names one that is read: {', '.join(OPERATIONS)}", number)
    groups = {group for group, _, _ in stream.ranks}
    mine = [(host, gpu) for group, host, gpu in stream.ranks if group == min(groups)]
    ranks = _given_count(given, "ranks") or len(mine)
    hosts = _given_count(given, "hosts") or len({host for host, _ in mine})
    if not ranks or not hosts:
        raise given.fail("no `#  Rank` lines above the table; --option ranks= and --option hosts= say how many", number)
    if ranks < 2:
        raise given.fail("one rank exchanges nothing (was nccl-tests built without MPI?)", number)
    iterations = stream.settings.get("iters")
    return Table(
        operation=operation,
        line=number,
        columns=header.lstrip("#").split(),
        ranks=ranks,
        hosts=hosts,
        names=tuple(dict.fromkeys(host for host, _ in mine)),
        devices=tuple(gpu for _, gpu in mine),
        iterations=int(iterations) if iterations else None,
        settings=stream.settings,
    )


def _given_count(given: Given, option: str) -> int | None:
    text = given.options.get(option)
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 10**7:
        raise FormatError(f"--option {option}={text}: a whole number from 1 on is expected")
    return int(text)


def _cells(given: Given, number: int, table: Table, cells: Sequence[str]) -> Cells:
    stamped = "timestamp" in table.columns
    if len(cells) != len(table.columns) + stamped:  # a time stamp is a date and a time
        raise given.fail(f"{len(cells)} values where the header (line {table.line}) has {len(table.columns)}", number)
    heads = [place for place, name in enumerate(table.columns) if name in ("time", "cputime")]
    ends = [*heads[1:], len(table.columns)]
    common = dict(zip(table.columns[: heads[0]] if heads else [], cells, strict=False))
    try:
        if not heads or len(heads) > len(PLACES):
            raise ValueError("the header has no column `time`, or more than two")
        if "cputime" in table.columns:
            raise ValueError("these are times of the CPU (option -C), not of the operation")
        places = {
            place: _measured(place, dict(zip(table.columns[a:b], cells[a:b], strict=False)))
            for place, a, b in zip(PLACES, heads, ends, strict=False)
        }
        return Cells(
            line=number,
            size=_whole(common["size"]),
            count=_whole(common["count"]),
            dtype=common["type"],
            reduction=_reduction(common.get("redop", "none"), table),
            places=places,
        )
    except KeyError as error:
        raise given.fail(f"the header (line {table.line}) has no column {error}", number) from error
    except ValueError as error:
        raise given.fail(str(error), number) from error


def _reduction(text: str, table: Table) -> str | None:
    if text == "none":
        return "sum" if table.operation in ("all_reduce", "reduce_scatter") and "redop" not in table.columns else None
    if text not in REDUCTIONS:
        raise ValueError(f"redop {text!r} is not one of {', '.join(REDUCTIONS)}")
    return text


def _measured(place: str, cells: dict[str, str]) -> Measured:
    microseconds = number_of(cells["time"])
    if not _SHORTEST <= microseconds <= _LONGEST:
        raise ValueError(f"a time of {cells['time']} us")
    checked = cells.get("#wrong", "N/A")
    deviation = cells.get("error", "N/A")
    return Measured(
        place=place,
        microseconds=microseconds,
        time_digit=_digit(cells["time"]) / 2,
        bus=number_of(cells["busbw"]),
        bus_digit=_digit(cells["busbw"]),
        wrong=None if checked == "N/A" else _whole(str(int(number_of(checked)))),
        deviation=None if deviation == "N/A" else number_of(deviation),
    )


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > _DIGITS:
        raise ValueError(f"{text[:40]!r} is not a number of bytes or elements")
    return int(text)


def _digit(text: str) -> float:
    """Value of the last digit of a number as printed: `12.30` -> 0.01, `1.2e+05` -> 1e4."""
    mantissa, _, exponent = text.lower().partition("e")
    return float(10 ** (int(exponent or 0) - len(mantissa.partition(".")[2])))
