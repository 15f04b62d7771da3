"""The history query: every quantity of every record as one table, in DuckDB."""

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfscale.suite.record import Record
from tfscale.suite.store import Found, find_records

if TYPE_CHECKING:
    import duckdb

COLUMNS = {
    "id": "VARCHAR",
    "run": "VARCHAR",
    "case_id": "VARCHAR",
    "trial": "INTEGER",
    "created": "VARCHAR",
    "title": "VARCHAR",
    "workload": "VARCHAR",
    "preset": "VARCHAR",
    "strategy": "VARCHAR",
    "devices": "INTEGER",
    "axes": "JSON",
    "resolved": "VARCHAR",
    "status": "VARCHAR",
    "steady": "VARCHAR",
    "host": "VARCHAR",
    "folder": "VARCHAR",
    "metric": "VARCHAR",
    "value": "DOUBLE",
    "unit": "VARCHAR",
    "kind": "VARCHAR",
    "statistic": "VARCHAR",
    "low": "DOUBLE",
    "high": "DOUBLE",
    "n_samples": "BIGINT",
    "reason": "VARCHAR",
}
"""Columns of `records`, one row for each quantity of each record; `created` is UTC and sorts by time.

A series over time is one `case_id` and one `resolved`: what an exchange that chooses for itself came down to."""


def history(path: Path) -> "tuple[duckdb.DuckDBPyConnection, Found]":
    """A connection with the table `records` (COLUMNS), and what was found and skipped under `path`.

    `connection.sql("select ... from records").df()` gives a pandas frame. Raises StoreError when `path` does not exist.
    """
    import duckdb

    found = find_records(path)
    connection = duckdb.connect()
    columns = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
    connection.execute(f"create table records ({columns})")
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "rows.json"
        with lines.open("w") as file:
            for record in found.records:
                file.writelines(json.dumps(row) + "\n" for row in rows(record, found.folders[record.id]))
        if found.records:
            read = "insert into records select * from read_json(?, format = 'newline_delimited', columns = ?)"
            connection.execute(read, [str(lines), COLUMNS])
    return connection, found


def rows(record: Record, folder: Path) -> list[dict[str, Any]]:
    """One row for each quantity of a record, under the names of COLUMNS."""
    common = {
        "id": record.id,
        "run": record.run,
        "case_id": record.case_id,
        "trial": record.trial,
        "created": record.created,
        "title": " ".join(str(record.case.get(k, "")) for k in ("workload", "preset", "strategy", "devices")),
        **{name: record.case.get(name) for name in ("workload", "preset", "strategy", "devices")},
        "axes": record.case,
        "resolved": record.effective.get("resolved"),
        "status": record.validity.status,
        "steady": record.steady.classification,
        "host": record.environment.get("host"),
        "folder": str(folder),
    }
    return [
        {
            **common,
            "metric": name,
            **{key: getattr(quantity, key) for key in ("value", "unit", "kind", "statistic", "n_samples", "reason")},
            "low": quantity.ci95[0] if quantity.ci95 else None,
            "high": quantity.ci95[1] if quantity.ci95 else None,
        }
        for name, quantity in record.quantities.items()
    ]
