"""The long table of results, as CSV and parquet: one row a quantity of a record, and one a phase."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tfscale.suite.display import brief
from tfscale.suite.formats.base import Format, Results, Written
from tfscale.suite.record import Quantity, Record

COLUMNS = {
    "run": "VARCHAR",
    "created": "VARCHAR",
    "case_id": "VARCHAR",
    "trial": "INTEGER",
    "title": "VARCHAR",
    "workload": "VARCHAR",
    "preset": "VARCHAR",
    "strategy": "VARCHAR",
    "devices": "INTEGER",
    "axes": "VARCHAR",
    "resolved": "VARCHAR",
    "status": "VARCHAR",
    "steady": "VARCHAR",
    "host": "VARCHAR",
    "part": "VARCHAR",
    "metric": "VARCHAR",
    "value": "DOUBLE",
    "unit": "VARCHAR",
    "kind": "VARCHAR",
    "statistic": "VARCHAR",
    "scope": "VARCHAR",
    "n_trials": "INTEGER",
    "n_samples": "BIGINT",
    "low": "DOUBLE",
    "high": "DOUBLE",
    "ci_method": "VARCHAR",
    "reason": "VARCHAR",
}
"""Name -> type; `axes` is the case as JSON, `part` is `quantities` or `phases`, [low, high] the 95 % interval."""
LOSES = ("blocks", "monitors", "breakdown", "counts", "checks but the verdict", "environment but the host", "failures")


def rows(record: Record) -> Iterator[dict[str, Any]]:
    """The record's rows, under the names of COLUMNS."""
    case = record.case
    common = {
        "run": record.run,
        "created": record.created,
        "case_id": record.case_id,
        "trial": record.trial,
        "title": brief(case),
        **{axis: case.get(axis) for axis in ("workload", "preset", "strategy", "devices")},
        "axes": json.dumps(case, sort_keys=True),
        "resolved": record.effective.get("resolved"),
        "status": record.validity.status,
        "steady": record.steady.classification,
        "host": record.environment.get("host"),
    }
    for part, quantities in (("quantities", record.quantities), ("phases", record.phases)):
        for name, quantity in quantities.items():
            yield {**common, "part": part, "metric": name, **_cells(quantity)}


def _cells(quantity: Quantity) -> dict[str, Any]:
    low, high = quantity.ci95 or (None, None)
    own = ("value", "unit", "kind", "statistic", "scope", "n_trials", "n_samples", "ci_method", "reason")
    return {**{name: getattr(quantity, name) for name in own}, "low": low, "high": high}


def write_csv(results: Results) -> Written:
    """RFC 4180 with a header; an empty cell is a null, numbers read back to the same float."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    for record in results.records:
        writer.writerows(rows(record))
    return Written({"": buffer.getvalue().encode("utf-8", "backslashreplace")}, results.records)


def write_parquet(results: Results) -> Written:
    """The same table with types and nulls, compressed by zstd."""
    import duckdb

    with TemporaryDirectory() as folder:
        lines, target = Path(folder) / "rows.json", Path(folder) / "rows.parquet"
        with lines.open("w") as file:
            for record in results.records:
                file.writelines(json.dumps(row) + "\n" for row in rows(record))
        with duckdb.connect() as connection:
            connection.read_json(str(lines), format="newline_delimited", columns=COLUMNS).write_parquet(
                str(target), compression="zstd"
            )
        return Written({"": target.read_bytes()}, results.records)


def is_table(columns: Sequence[str]) -> bool:
    """Whether a CSV's header is one of this table's, columns added by others aside."""
    return {"metric", "value", "unit", "kind"} <= set(columns)


PARQUET = Format(
    "parquet, one row a quantity of each record of all runs",
    write=write_parquet,
    loses=LOSES,
    recognise=lambda begin: begin.startswith(b"PAR1"),
)
