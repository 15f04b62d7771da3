"""series.parquet: the samples beside the record, for charts and for whoever wants to query them.

It is long, one row a value, so that it can be queried without knowing what was sampled:

    monitor, device (null: the host), name, unit, kind (gauge, counter), wraps_at
    t_s      seconds after the start of the timed window; negative before it
    step     how many steps of the window were done by then, a fraction within a block; null outside the window
    value    as it was read: counters are not differenced, 32-bit ones not unwrapped

Rows are sorted by column and time. A value that could not be read has no row.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.monitors.base import Column
from tfscale.suite.monitors.series import Nanoseconds, Series
from tfscale.suite.rankfiles import TEMPORARY

SERIES = "series.parquet"
_ORDER = ("monitor", "device", "name", "unit", "kind", "wraps_at")


def write_parquet(
    path: Path,
    monitors: Mapping[str, Series],
    t0_ns: int,
    boundaries_ns: Nanoseconds | None = None,
    steps: NDArray[np.int64] | None = None,
) -> None:
    """Write `monitors` to `path`, atomically. `t0_ns` is the start of the timed window.

    `boundaries_ns` (b + 1,) are the ends of its blocks after its start, `steps` (b,) the steps of each; without them
    there is no step axis. Raises OSError where it cannot be written.
    """
    import duckdb  # a quarter of a second that only those who keep series pay

    table, rows = _columns_table(monitors), _rows(monitors, t0_ns)
    rows["step"] = np.full(rows["t_s"].size, np.nan)
    if boundaries_ns is not None and steps is not None:
        done = np.concatenate([[0], np.cumsum(steps)]).astype(np.float64)
        ends = (boundaries_ns - t0_ns) / 1e9
        rows["step"] = np.interp(rows["t_s"], ends, done, left=np.nan, right=np.nan)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        with duckdb.connect() as connection:
            connection.register("rows", rows)
            connection.register("columns", table)
            chosen = ", ".join(f"columns.{name}" for name in _ORDER)
            connection.sql(
                f"select {chosen}, t_s, case when isnan(step) then null else step end as step, value "
                "from rows join columns using (number) order by number, t_s"
            ).write_parquet(str(temporary), compression="zstd")
        temporary.rename(path)
    except duckdb.Error as error:
        raise OSError(f"{path} cannot be written: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _columns_table(monitors: Mapping[str, Series]) -> dict[str, NDArray[Any]]:
    listed = [(name, column) for name, series in monitors.items() for column in series.columns]
    table: dict[str, NDArray[Any]] = {
        key: np.array([getattr(column, key) for _, column in listed], dtype=object)
        for key in ("device", "name", "unit", "kind")
    }
    table["monitor"] = np.array([name for name, _ in listed], dtype=object)
    table["wraps_at"] = np.array([column.wraps_at for _, column in listed], dtype=np.float64)
    table["number"] = np.arange(len(listed), dtype=np.int64)
    return table


def _rows(monitors: Mapping[str, Series], t0_ns: int) -> dict[str, NDArray[Any]]:
    numbers, times, values = [np.empty(0, np.int64)], [np.empty(0)], [np.empty(0)]
    number = 0
    for series in monitors.values():
        for column in range(len(series.columns)):
            t_ns, found = series.of(column)
            numbers.append(np.full(found.size, number, dtype=np.int64))
            times.append((t_ns - t0_ns) / 1e9)
            values.append(found)
            number += 1
    return {"number": np.concatenate(numbers), "t_s": np.concatenate(times), "value": np.concatenate(values)}


def read_parquet(path: Path) -> dict[str, Series]:
    """Read what `write_parquet` wrote; times are relative to the start of the window.

    Columns without any value are not in it, and facts neither. Raises OSError, or ValueError for another kind of file.
    """
    import duckdb

    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there")
    try:
        with duckdb.connect() as connection:
            found = connection.read_parquet(str(path)).select(*_ORDER, "t_s", "value").fetchnumpy()
    except duckdb.Error as error:
        raise ValueError(f"{path} is no {SERIES} of ours: {error}") from error
    return {name: _pivot(found, name) for name in dict.fromkeys(found["monitor"].tolist())}


def _pivot(found: Mapping[str, Any], monitor: str) -> Series:
    """One monitor's rows as a table again."""
    mine = np.flatnonzero(np.asarray(found["monitor"]) == monitor)
    t_ns = np.rint(np.asarray(found["t_s"])[mine] * 1e9).astype(np.int64)
    times, row = np.unique(t_ns, return_inverse=True)
    described = [tuple(np.ma.asarray(found[key])[mine].tolist()) for key in _ORDER[1:]]
    keys = list(zip(*described, strict=True))
    places = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    values = np.full((times.size, len(places)), np.nan)
    values[row, [places[key] for key in keys]] = np.asarray(found["value"])[mine]
    columns = tuple(Column(**dict(zip(_ORDER[1:], key, strict=True))) for key in places)
    return Series(columns, times, values)
