"""Series from files, judged: what `tfscale detect` answers."""

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from tfscale.suite.analysis import judging
from tfscale.suite.record import Strict

SCHEMA: Literal["tfscale.detect/1"] = "tfscale.detect/1"
LARGEST_FILE = 64 * 2**20
MOST_POINTS = 200_000
_EMPTY = ("", "nan", "null", "none", "na", "n/a", "-")
"""What stands for a night without a result in a CSV file, whatever its case."""

Values = list[float | None]


class SeriesError(ValueError):
    """A file that holds no series; the message names the file, the place and what is wanted."""


class Step(Strict):
    """A change to another level; `index` is the first point of the new one."""

    index: int
    before: float
    after: float
    ratio: float | None
    p: float
    outcome: Literal["regressed", "improved"] | None
    """None where the direction was not told."""


class Judged(Strict):
    name: str
    n: int
    """Points with a value."""
    verdict: judging.Verdict
    changes: tuple[Step, ...]
    outliers: tuple[int, ...]
    level: float | None
    noise: float | None
    """Standard deviation of one point about its level, relative."""
    reason: str


class Detected(Strict):
    model_config = ConfigDict(populate_by_name=True)

    schema_: Annotated[Literal["tfscale.detect/1"], Field(alias="schema")] = SCHEMA
    min_effect: float
    series: tuple[Judged, ...]


def detect(path: Path, *, min_effect: float, direction: judging.Direction | None) -> Detected:
    """Judge every series of the file `path`. Raises SeriesError."""
    judged = []
    for name, values in read(path).items():
        try:
            found = judging.judge(values, min_effect=min_effect)
        except ValueError as error:
            raise SeriesError(f"{path}: series {name!r}: {error}") from error
        steps = tuple(
            Step(
                index=one.index,
                before=one.before,
                after=one.after,
                ratio=one.ratio,
                p=one.p,
                outcome=judging.outcome(one.before, one.after, direction) if direction else None,
            )
            for one in found.changes
        )
        judged.append(
            Judged(
                name=name,
                n=found.n,
                verdict=found.verdict,
                changes=steps,
                outliers=found.outliers,
                level=found.level,
                noise=found.noise,
                reason=found.reason,
            )
        )
    return Detected(min_effect=min_effect, series=tuple(judged))


def read(path: Path) -> dict[str, Values]:
    """Name -> points of every series in a CSV file (a column each) or a JSON file (a list, or an object of lists).

    Raises SeriesError.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise SeriesError(f"{path}: larger than {LARGEST_FILE} bytes: no file of nightly series")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SeriesError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SeriesError(f"{path}: no text in UTF-8; a CSV or JSON file is wanted") from error
    if not text.strip():
        raise SeriesError(f"{path}: an empty file; a CSV or JSON file is wanted")
    found = _json(path, text) if path.suffix.lower() == ".json" or text.lstrip()[:1] in "[{" else _csv(path, text)
    for name, values in found.items():
        if not values:
            raise SeriesError(f"{path}: series {name!r} has no points")
        if len(values) > MOST_POINTS:
            raise SeriesError(f"{path}: series {name!r} has {len(values)} points; {MOST_POINTS} are judged at most")
    return found


def _json(path: Path, text: str) -> dict[str, Values]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SeriesError(f"{path}: no JSON: {error}") from error
    named = {path.stem: data} if isinstance(data, list) else data
    if not isinstance(named, dict) or not named:
        raise SeriesError(f"{path}: a list of numbers, or an object of name: list, is wanted")
    return {name: _numbers(path, name, values) for name, values in named.items()}


def _numbers(path: Path, name: str, values: Any) -> Values:
    if not isinstance(values, list):
        raise SeriesError(f"{path}: series {name!r} is a {type(values).__name__}; a list of numbers is wanted")
    return [_number(path, name, index, value) for index, value in enumerate(values)]


def _number(path: Path, name: str, index: int, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SeriesError(f"{path}: series {name!r}, point {index}: {str(value)[:40]!r} is no number and not null")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise SeriesError(f"{path}: series {name!r}, point {index}: the value is infinite; null is a missing night")
    return None if math.isnan(number) else number


def _csv(path: Path, text: str) -> dict[str, Values]:
    """A column each. A first row without numbers names them; a first column without numbers (dates, commits) is left out."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text)) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise SeriesError(f"{path}: no CSV: {error}") from error
    width = len(rows[0])
    for number, row in enumerate(rows, 1):
        if len(row) != width:
            raise SeriesError(f"{path}: row {number} has {len(row)} cells, the first has {width}")
    headed = not any(_is_number(cell) for cell in rows[0])
    names, body = (rows[0], rows[1:]) if headed else ([f"column {i + 1}" for i in range(width)], rows)
    if not body:
        raise SeriesError(f"{path}: a row of names and no points")
    labels = width > 1 and not all(_is_number(row[0]) or _is_empty(row[0]) for row in body)
    columns = range(1 if labels else 0, width)
    if len({names[column] for column in columns}) < len(columns):
        raise SeriesError(f"{path}: two columns have the same name")
    return {names[c].strip() or f"column {c + 1}": _column(path, body, c, 1 + headed) for c in columns}


def _column(path: Path, body: Sequence[Sequence[str]], column: int, first: int) -> Values:
    values: Values = []
    for number, row in enumerate(body, first):
        cell = row[column].strip()
        if _is_empty(cell):
            values.append(None)
        elif not _is_number(cell) or math.isinf(float(cell)):
            raise SeriesError(f"{path}: row {number}, column {column + 1}: {cell[:40]!r} is no number and not empty")
        else:
            values.append(float(cell))
    return values


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_empty(cell: str) -> bool:
    return cell.strip().lower() in _EMPTY
