"""JSON lines in, series out; parquet and back, read by DuckDB as anyone would."""

import dataclasses
import json
from pathlib import Path

import duckdb
import numpy as np
import pytest

from tfscale.suite.monitors import parquet, series
from tfscale.suite.monitors.base import Column
from tfscale.suite.monitors.series import Series

S = 1_000_000_000
COLUMNS = [
    Column("busy", "s", "counter", "cpu0", wraps_at=2.0**34),
    Column("load1", "processes", "gauge", slow=True),
    Column("frequency", "MHz", "gauge", "cpu0", state="absent", reason="no driver"),
    Column("steal", "s", "counter"),
]


def lines(*more: dict[str, object]) -> bytes:
    first = {"m": "host", "columns": [dataclasses.asdict(column) for column in COLUMNS]}
    start = {"sampler": {"pid": 1, "period_s": 0.1, "slow_s": 1.0}}
    return b"".join(json.dumps(line).encode() + b"\n" for line in (start, first, *more))


FAST = {"m": "host", "t": 5 * S, "s": 0, "v": [1.5, None]}
SLOW = {"m": "host", "t": 5 * S + 9, "s": 1, "v": [0.25]}
NEXT = {"m": "host", "t": 6 * S, "s": 0, "v": [2.5, 7]}


def test_values_find_their_columns(tmp_path: Path) -> None:
    path = tmp_path / "monitors.jsonl"
    path.write_bytes(lines(FAST, SLOW, NEXT, {"m": "host", "t": 7 * S, "facts": {"a": 1}}, {"end": {"ticks": 2}}))
    found = series.read(path)
    host = found.monitors["host"]
    assert host.columns == tuple(COLUMNS)
    assert host.t_ns.tolist() == [5 * S, 5 * S + 9, 6 * S]
    nan = np.nan
    np.testing.assert_array_equal(host.values, [[1.5, nan, nan, nan], [nan, 0.25, nan, nan], [2.5, nan, nan, 7]])
    assert host.of(3)[0].tolist() == [6 * S]
    assert host.facts == ((7 * S, {"a": 1}),)
    assert (found.period_s, found.end, found.damaged) == (0.1, {"ticks": 2}, 0)


@pytest.mark.parametrize("cut", [1, 10, 30])
def test_a_torn_last_line_is_left_out(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "monitors.jsonl"
    path.write_bytes(lines(FAST, NEXT)[:-cut])
    found = series.read(path)
    whole = cut == 1  # only the line's end is missing
    assert found.monitors["host"].t_ns.tolist() == ([5 * S, 6 * S] if whole else [5 * S])
    assert (found.damaged, found.end) == (0, None)


def test_damage_elsewhere_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "monitors.jsonl"
    path.write_bytes(lines(FAST) + b"\0\0\0\n17\n" + lines(NEXT).splitlines()[-1] + b"\n")
    found = series.read(path)
    assert found.damaged == 2
    assert len(found.monitors["host"].t_ns) == 2


def host() -> Series:
    values = np.array([[1.5, np.nan, np.nan, 0], [np.nan, 0.25, np.nan, np.nan], [2.5, np.nan, np.nan, 7]])
    return Series(tuple(COLUMNS), np.array([90, 101, 110], dtype=np.int64) * S, values)


def test_parquet_is_long_and_on_the_steps_of_the_window(tmp_path: Path) -> None:
    path = tmp_path / parquet.SERIES
    boundaries = np.array([100, 102, 112], dtype=np.int64) * S
    parquet.write_parquet(path, {"host": host()}, 100 * S, boundaries, np.array([4, 100]))
    rows = duckdb.sql(f"from '{path}'").fetchall()
    assert rows == [
        ("host", "cpu0", "busy", "s", "counter", 2.0**34, -10.0, None, 1.5),
        ("host", "cpu0", "busy", "s", "counter", 2.0**34, 10.0, 84.0, 2.5),
        ("host", None, "load1", "processes", "gauge", 2.0**32, 1.0, 2.0, 0.25),
        ("host", None, "steal", "s", "counter", 2.0**32, -10.0, None, 0.0),
        ("host", None, "steal", "s", "counter", 2.0**32, 10.0, 84.0, 7.0),
    ]
    assert [row[0] for row in duckdb.sql(f"describe from '{path}'").fetchall()] == [
        "monitor", "device", "name", "unit", "kind", "wraps_at", "t_s", "step", "value",
    ]  # fmt: skip
    assert [entry.name for entry in tmp_path.iterdir()] == [parquet.SERIES]


def test_parquet_and_back(tmp_path: Path) -> None:
    path = tmp_path / parquet.SERIES
    other = Series(
        (Column("tx_bytes", "B", "counter", "eth0"),), np.array([1, 3], dtype=np.int64), np.array([[5.0], [6]])
    )
    parquet.write_parquet(path, {"host": host(), "network": other}, 100 * S)
    back = parquet.read_parquet(path)
    assert list(back) == ["host", "network"]
    assert [column.key for column in back["host"].columns] == ["cpu0/busy", "load1", "steal"]
    assert back["host"].columns[0].wraps_at == 2.0**34
    assert back["host"].t_ns.tolist() == [-10 * S, S, 10 * S]
    np.testing.assert_array_equal(back["host"].values, np.delete(host().values, 2, axis=1))
    assert back["network"].t_ns.tolist() == [1 - 100 * S, 3 - 100 * S]
    assert duckdb.sql(f"select count(step) from '{path}'").fetchall() == [(0,)]


def test_no_samples_and_no_parquet(tmp_path: Path) -> None:
    path = tmp_path / parquet.SERIES
    parquet.write_parquet(path, {}, 0)
    assert parquet.read_parquet(path) == {}
    path.write_bytes(b"no parquet")
    with pytest.raises(ValueError, match=r"is no series\.parquet of ours"):
        parquet.read_parquet(path)
    with pytest.raises(FileNotFoundError):
        parquet.read_parquet(tmp_path / "none")
    with pytest.raises(OSError, match="cannot be written"):
        parquet.write_parquet(tmp_path / "no folder" / parquet.SERIES, {"host": host()}, 0)
