"""What a format is: one file here, one entry point in the group `tfscale.formats`.

A format writes our results, reads another tool's file, or both. Either is a function from data to data: what touches
files is in transfer.py.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tfscale.suite import store
from tfscale.suite.formats.forms import Imported, Origin
from tfscale.suite.record import Record
from tfscale.suite.store import LoadedRun


class FormatError(ValueError):
    """A file that is not of its format; the message names the file, the place and what was expected."""


class Results:
    """What is to be exported, read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[str] = []

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """Every record under the path, over all runs. Raises StoreError, ValueError where there is none."""
        found = store.find_records(self.path)
        self.warnings += found.warnings
        return self._some(found.records)

    @cached_property
    def run(self) -> LoadedRun:
        """The newest run under the path. Raises StoreError, ValueError where it has no record."""
        loaded = store.load_run(self.path)
        self.warnings += loaded.warnings
        self._some(loaded.run.records)
        return loaded

    def _some(self, records: Iterable[Record]) -> tuple[Record, ...]:
        found = tuple(records)
        if not found:
            skipped = f" ({len(self.warnings)} files were skipped: {self.warnings[0]})" if self.warnings else ""
            raise ValueError(f"no record in {self.path}{skipped}")
        return found


@dataclass(frozen=True)
class Written:
    """What a format makes of results."""

    files: Mapping[str, bytes]
    """Path relative to the target -> content; the only key is "" where the target is one file."""
    records: Sequence[Record]
    lost: tuple[str, ...] = ()
    """What these results have and the format cannot hold, beside what it never can."""


@dataclass(frozen=True)
class Given:
    """A file to import."""

    data: bytes
    origin: Origin
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.origin.file

    def fail(self, what: str, line: int | None = None) -> FormatError:
        where = f"{self.name}:{line}" if line is not None else self.name
        return FormatError(f"{where}: {what}")


@dataclass(frozen=True)
class Read:
    """What a format makes of a file."""

    documents: Mapping[str, BaseModel]
    """File name -> document."""
    rows: int
    lost: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    points: Callable[[Sequence[Imported]], "Table"] | None = None
    """The values over time of such documents, oldest first, for `tfscale detect`."""
    joins: bool = False
    """Whether each file is one point of a series that all imports of the format make together."""


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns; None is an empty cell."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | None]]


@dataclass(frozen=True)
class Format:
    """One format of other tools."""

    summary: str
    write: Callable[[Results], Written] | None = None
    loses: tuple[str, ...] = ()
    """What an export never holds."""
    recognise: Callable[[bytes], bool] = lambda begin: False
    """Whether a file that begins so is of this format, and may be replaced by an export."""
    ending: str | None = None
    """For a format of many files in a folder: what the name of each ends in."""
    read: Callable[[Given], Read] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Name -> what it says of a file that is read."""


def text_of(given: Given) -> str:
    """The file as text. Raises FormatError for one that is empty or not UTF-8."""
    if not given.data.strip():
        raise given.fail("the file is empty")
    try:
        text = given.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise given.fail(f"not UTF-8 text (byte {error.start})") from error
    if "\0" in text:
        raise given.fail(f"not text: a zero byte at {text.index(chr(0))}")
    return text


def json_of(text: str) -> Any:
    """JSON without numbers that are none. Raises ValueError."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large for a number")
    return value


def number_of(value: Any) -> float:
    """`value` (text or JSON) as a finite number. Raises ValueError saying what it is."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{_short(value)} is not a number")
    try:
        found = float(value)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{_short(value)} is not a number") from error
    if not math.isfinite(found):
        raise ValueError(f"{_short(value)} is not a finite number")
    return found


def _short(value: Any) -> str:
    shown = repr(value) if not isinstance(value, int) or abs(value) < 1e15 else "an integer without a float"
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
