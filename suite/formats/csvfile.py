"""CSV: the long table out and in, and series of any tool in (a column each, a label or time in the first)."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import ValidationError

from tfscale.suite.formats import table
from tfscale.suite.formats.base import Format, Given, Read, Table, number_of, text_of
from tfscale.suite.formats.forms import Imported, ImportedRow
from tfscale.suite.record import Kind, Quantity, Scope, unknown
from tfscale.suite.registry import UnknownNameError

_LABELS = ("run", "created", "case_id", "trial", "title", "axes", "resolved", "status", "steady", "host", "part")
_UNIT = re.compile(r"(?P<name>.+?)\s*[\[(](?P<unit>[^\])]+)[\])]")
_NAMES = (
    "",
    "time",
    "date",
    "night",
    "run",
    "commit",
    "revision",
    "label",
    "build",
    "timestamp",
    "step",
    "index",
    "id",
)
"""Headings of a first column that names the points, even where it holds numbers."""
Line = tuple[int, list[str]]


def read(given: Given) -> Read:
    """The long table where its columns are there, else a series a column. Raises FormatError naming the line."""
    columns, lines = _lines(given)
    return _long(given, columns, lines) if table.is_table(columns) else _series(given, columns, lines)


def _lines(given: Given) -> tuple[list[str], list[Line]]:
    reader = csv.reader(io.StringIO(text_of(given), newline=""), strict=True)
    try:
        lines = [(reader.line_num, cells) for cells in reader if cells]
    except csv.Error as error:
        raise given.fail(f"not CSV: {error}", reader.line_num) from error
    columns = [name.strip() for name in lines[0][1]]
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise given.fail(f"two columns are called {twice!r}", 1)
    for number, cells in lines[1:]:
        if len(cells) != len(columns):
            raise given.fail(f"{len(cells)} cells where the header has {len(columns)}", number)
    if len(lines) == 1:
        raise given.fail("a header and no line under it")
    return columns, lines[1:]


def _long(given: Given, columns: Sequence[str], lines: Sequence[Line]) -> Read:
    """Rows of the same run, case, trial and part come together again."""
    rows: dict[tuple[str, ...], dict[str, Quantity]] = {}
    labels: dict[tuple[str, ...], dict[str, str]] = {}
    for number, cells in lines:
        row = dict(zip(columns, cells, strict=True))
        key = tuple(row.get(name, "") for name in ("run", "case_id", "trial", "part"))
        found = rows.setdefault(key, {})
        labels.setdefault(key, {name: row[name] for name in _LABELS if row.get(name)})
        if row["metric"] in found:
            raise given.fail(f"{row['metric']!r} a second time for the same run, case and trial", number)
        try:
            found[row["metric"]] = _quantity(row)
        except ValidationError as error:
            raise given.fail(f"{row['metric']!r}: {error.errors()[0]['msg']}", number) from error
        except ValueError as error:
            raise given.fail(f"{row['metric']!r}: {error}", number) from error
    made = tuple(
        ImportedRow(name=labels[key].get("title", ""), labels=labels[key], quantities=found)
        for key, found in rows.items()
    )
    origin = given.origin.model_copy(update={"tool": "tfscale export"} if set(table.COLUMNS) <= set(columns) else {})
    return Read({"imported.json": Imported(origin=origin, rows=made)}, len(made))


def _quantity(row: Mapping[str, str]) -> Quantity:
    """A row's quantity; an empty cell is a null. Raises ValueError."""
    known: dict[str, Any] = {name: row[name] for name in ("unit", "kind") if name in row}
    known["statistic"] = row.get("statistic", "")
    for name in ("scope", "ci_method", "reason"):
        if row.get(name):
            known[name] = row[name]
    for name in ("n_trials", "n_samples"):
        if row.get(name):
            known[name] = int(row[name])
    if row.get("low") and row.get("high"):
        known["ci95"] = (number_of(row["low"]), number_of(row["high"]))
    if known["kind"] not in get_args(Kind):
        raise UnknownNameError("kind", known["kind"], list(get_args(Kind)))
    if known.get("scope", "within_trial") not in get_args(Scope):
        raise UnknownNameError("scope", known["scope"], list(get_args(Scope)))
    value = number_of(row["value"]) if row["value"] else None
    if value is None:
        known.setdefault("reason", "the cell is empty")
    return Quantity(value=value, **known)


def _series(given: Given, columns: Sequence[str], lines: Sequence[Line]) -> Read:
    kind = given.options.get("kind", "published")
    if kind not in get_args(Kind):
        raise UnknownNameError("--option kind", kind, list(get_args(Kind)))
    named = columns[0].lower() in _NAMES or any(not _numeric(cells[0]) for _, cells in lines if cells[0].strip())
    first = 1 if named else 0
    if len(columns) == first:
        raise given.fail("only a column of labels and no series beside it (commas separate columns)", 1)
    titles = [_split(name) for name in columns]
    rows: list[ImportedRow] = []
    for number, cells in lines:
        quantities = {}
        for (name, unit), cell in list(zip(titles, cells, strict=True))[first:]:
            try:
                quantities[name] = _point(cell.strip(), unit, kind)  # type: ignore[arg-type]
            except ValueError as error:
                raise given.fail(
                    f"column {name!r}: {error} (leave the cell empty where a value is missing)", number
                ) from error
        label = cells[0].strip() if named else str(len(rows))
        rows.append(ImportedRow(name=label, labels={"column": columns[0] if named else "index"}, quantities=quantities))
    notes = (
        () if "kind" in given.options else (f"kind: {kind}, for the file does not say; --option kind= names another",)
    )
    document = Imported(origin=given.origin, rows=tuple(rows))
    return Read({"imported.json": document}, len(rows), notes=notes, points=points)


def _point(cell: str, unit: str, kind: Kind) -> Quantity:
    if not cell:
        return unknown(unit, kind, "as given", "the cell is empty")
    return Quantity(value=number_of(cell), unit=unit, kind=kind, statistic="as given")


def _numeric(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _split(column: str) -> tuple[str, str]:
    """`step time [s]` -> name and unit; a unit that is not given is empty."""
    match = _UNIT.fullmatch(column)
    return (match["name"], match["unit"]) if match else (column, "")


def points(documents: Sequence[Imported]) -> Table:
    """The series again, a column each."""
    rows = [row for document in documents for row in document.rows]
    names = list(rows[0].quantities)
    return Table(
        [rows[0].labels["column"], *names], [[row.name, *(row.quantities[n].value for n in names)] for row in rows]
    )


def _recognise(begin: bytes) -> bool:
    return begin.startswith(",".join(list(table.COLUMNS)[:3]).encode())


FORMAT = Format(
    "CSV, one row a quantity of each record of all runs; reads that, and series of other tools",
    write=table.write_csv,
    loses=table.LOSES,
    recognise=_recognise,
    read=read,
    options={"kind": f"what the numbers of a series are: {', '.join(get_args(Kind))} (default: published)"},
)
