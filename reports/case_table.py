"""The table of every case, one a workload and preset: cells as text, and a numbered note for whatever is missing."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from tfscale.reports import text

Row = dict[Hashable, Any]
SECONDS = ("s", 1.0)
MILLISECONDS = ("ms", 1e3)
MICROSECONDS = ("µs", 1e6)
MARKS = {"measured": "m", "derived": "d", "simulated": "s", "published": "p"}
NOT_RECORDED = "not on the record"
ABOVE = "above 100 %: faster than its reference allows, so look for what else differs between the two"
WITHIN = "one trial only: the interval is within that trial, and says nothing of how another launch would differ"
BASELINES = {"one_device": "vs one device", "one_node": "vs one node", "independent": "vs independent"}


@dataclass(frozen=True)
class Cell:
    """One cell: its text, smaller text below, the mark of its kind where the column has several, its note's number."""

    text: str
    below: str = ""
    mark: str = ""
    note: int | None = None
    reason: str = ""
    sort: float | str = ""


@dataclass(frozen=True)
class Column:
    title: str
    unit: str = ""
    kind: str = ""
    """What the header says of the kind of every number in the column."""


@dataclass
class Notes:
    """Numbered notes of one table; the same words share a number."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, words: str) -> int:
        return self.numbers.setdefault(words, len(self.numbers) + 1)


@dataclass(frozen=True)
class CaseRow:
    case_id: str
    strategy: str
    setting: str
    devices: int
    cells: tuple[Cell, ...]
    status: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class CaseTable:
    name: str
    columns: tuple[Column, ...]
    rows: tuple[CaseRow, ...]
    notes: tuple[str, ...]


def setting(row: Row) -> str:
    """What a case is besides its workload, strategy and devices, for the second line of its name."""
    batch = f"{row['batch']:,}/replica" if row["scaling"] == "weak" else f"{row['batch']:,} global ({row['scaling']})"
    parts = [f"batch\u00a0{batch}", row["precision"], f"xla\u00a0{row['xla']}"]
    parts += [row["line"].partition(", ")[2]] if ", " in row["line"] else []
    parts += [str(row["math"])] if row["math"] else []
    parts += [f"{row['hosts']} hosts"] if row["hosts"] > 1 else []
    return " · ".join(part for part in [*parts, row["other"]] if part)


def tables(
    cases: pd.DataFrame, quantities: pd.DataFrame, efficiencies: pd.DataFrame, reasons: dict[str, tuple[str, ...]]
) -> list[CaseTable]:
    """One table a workload and preset, in the order of the run. `reasons`: case id -> why it is not VALID."""
    return [
        _table(f"{key[0]} {key[1]}", group, quantities, efficiencies, reasons)
        for key, group in cases.groupby(["workload", "preset"], sort=False)
    ]


def _table(
    name: str,
    cases: pd.DataFrame,
    quantities: pd.DataFrame,
    efficiencies: pd.DataFrame,
    reasons: dict[str, tuple[str, ...]],
) -> CaseTable:
    notes = Notes()
    quantities = quantities[quantities["case_id"].isin(cases["case_id"])]
    efficiencies = efficiencies[efficiencies["case_id"].isin(cases["case_id"])]
    columns: list[Column] = []
    cells: dict[str, list[Cell]] = {case_id: [] for case_id in cases["case_id"]}

    def add(title: str, unit: str, values: pd.DataFrame, cell: Callable[[Row], Cell]) -> None:
        known = values[values["value"].notna()]
        kinds = sorted(set(known["kind"]))
        columns.append(Column(title, unit, kinds[0] if len(kinds) == 1 else "kinds marked" if kinds else ""))
        rows: dict[str, Row] = {str(row["case_id"]): row for row in values.to_dict("records")}
        for case_id, row_cells in cells.items():
            row = rows.get(case_id)
            mark = MARKS[str(row["kind"])] if row and len(kinds) > 1 and pd.notna(row["value"]) else ""
            made = cell(row) if row and pd.notna(row["value"]) else _missing(row, notes)
            row_cells.append(Cell(made.text, made.below, mark, made.note, made.reason, made.sort))

    steps = quantities[quantities["name"] == "step_time"]
    unit, scale = time_unit(steps["value"])
    add("Step time", unit, steps, lambda row: _value(row, scale))
    add("95 % interval", unit, steps, lambda row: _interval(row, scale, notes))
    rates = quantities[quantities["name"] == "throughput"]
    add("Throughput", shared_unit(rates), rates, lambda row: _value(row, 1.0))
    for baseline in _baselines(efficiencies):
        shares = efficiencies[efficiencies["baseline"] == baseline]
        add(f"Efficiency {BASELINES.get(baseline, 'vs ' + baseline)}", "", shares, lambda row: _share(row, notes))
    add("MFU", "", quantities[quantities["name"] == "mfu"], lambda row: _share(row, notes))
    add("Peak memory", "", memory(quantities), _memory)
    energies = quantities[quantities["name"] == "energy_per_sample"]
    if not energies.empty:
        add("Energy", shared_unit(energies), energies, lambda row: _value(row, 1.0))
    made = [_row(row, cells[str(row["case_id"])], reasons) for row in cases.to_dict("records")]
    return CaseTable(name, tuple(columns), tuple(made), tuple(notes.numbers))


def _row(row: Row, cells: list[Cell], reasons: dict[str, tuple[str, ...]]) -> CaseRow:
    case_id = str(row["case_id"])
    return CaseRow(
        case_id, row["strategy"], setting(row), row["devices"], tuple(cells), row["status"], reasons.get(case_id, ())
    )


def _baselines(efficiencies: pd.DataFrame) -> list[str]:
    """The baselines that are always shown, and those others that at least one case has a value for."""
    known = efficiencies[efficiencies["value"].notna()]["baseline"]
    return [name for name in BASELINES if name != "one_node" or (known == name).any()] + sorted(
        set(known) - set(BASELINES)
    )


def time_unit(values: "pd.Series[float]") -> tuple[str, float]:
    """The unit of a column of seconds, by its middle: name and factor."""
    middle = values.median()
    if pd.isna(middle) or 1e-3 <= middle < 10:
        return MILLISECONDS
    return SECONDS if middle >= 10 else MICROSECONDS


def shared_unit(values: pd.DataFrame) -> str:
    units = sorted(set(values["unit"]))
    return units[0] if len(units) == 1 else ""


def memory(quantities: pd.DataFrame) -> pd.DataFrame:
    """One row a case: the device's peak where there is one, else the host's; else the first reason why not."""
    found = quantities[quantities["name"].str.startswith("memory_peak")]
    order = found.assign(unknown=found["value"].isna(), host=found["name"].str.contains("host"))
    return order.sort_values(["unknown", "host"], kind="stable").drop_duplicates("case_id")


def _missing(row: Row | None, notes: Notes) -> Cell:
    reason = str(row["reason"]) if row and row["reason"] else NOT_RECORDED
    return Cell(text.NONE, note=notes.number(reason), reason=reason)


def _value(row: Row, scale: float) -> Cell:
    value = row["value"] * scale
    return Cell(text.number(value), sort=value)


def _interval(row: Row, scale: float, notes: Notes) -> Cell:
    if pd.isna(row["low"]):
        return _missing({**row, "reason": "no interval could be made"}, notes)
    places = text.decimals(row["value"] * scale)
    low, high = (text.fixed(row[end] * scale, places) for end in ("low", "high"))
    within = row["scope"] == "within_trial"
    return Cell(
        f"{low}–{high}", note=notes.number(WITHIN) if within else None, reason=WITHIN if within else "",
        sort=row["high"] - row["low"],
    )  # fmt: skip


def _share(row: Row, notes: Notes) -> Cell:
    below: str = "" if pd.isna(row["low"]) else text.percent_range(row["low"], row["high"], 1)
    note = ABOVE if row["value"] > 1 else ""
    return Cell(
        text.percent(row["value"], 1), below, note=notes.number(note) if note else None, reason=note, sort=row["value"]
    )


def _memory(row: Row) -> Cell:
    return Cell(text.size(row["value"]), "host" if "host" in str(row["name"]) else "device", sort=row["value"])
