"""Google benchmark's JSON: our rows look like those that the library itself writes, and its own file is read."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tfscale.suite.formats import transfer
from tfscale.suite.formats.base import FormatError
from tfscale.suite.formats.forms import Imported
from tfscale.suite.record import Run

PROGRAM = """
import google_benchmark as gb
@gb.register
@gb.option.range(8, 64)
def add(state):
    while state:
        sum(range(state.range(0)))
    state.counters["items"] = gb.Counter(3.0)
gb.main()
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that google benchmark's own JSON reporter wrote: two benchmarks of three repetitions, and aggregates."""
    pytest.importorskip("google_benchmark")
    file = tmp_path_factory.mktemp("real") / "real.json"
    program = [sys.executable, "-c", PROGRAM, f"--benchmark_out={file}", "--benchmark_out_format=json"]
    options = ["--benchmark_repetitions=3", "--benchmark_min_time=0.001s"]
    subprocess.run([*program, *options], check=True, capture_output=True, timeout=60)
    return file


def imported(answer: Any) -> Imported:
    return Imported.model_validate_json(Path(answer.files[0]).read_bytes())


def test_a_round_trip_keeps_every_known_quantity_with_unit_and_kind(stored: tuple[Path, Run], tmp_path: Path) -> None:
    results, run = stored
    transfer.export(results, "google-benchmark", tmp_path / "night.json")
    rows = imported(transfer.import_(tmp_path / "night.json", "google-benchmark", tmp_path, {})).rows
    assert len(rows) == len(run.records)
    for row, record in zip(rows, run.records, strict=True):
        known = {name: q for name, q in record.quantities.items() if q.value is not None}
        assert set(row.quantities) == set(known)
        for name, quantity in known.items():
            assert row.quantities[name].value == pytest.approx(quantity.value, rel=1e-15)
            assert (row.quantities[name].unit, row.quantities[name].kind) == (quantity.unit, "simulated")


def test_rows_have_the_keys_and_types_of_the_library_itself(
    stored: tuple[Path, Run], real: Path, tmp_path: Path
) -> None:
    transfer.export(stored[0], "google-benchmark", tmp_path / "night.json")
    theirs = json.loads(real.read_text())["benchmarks"][0]
    document = json.loads((tmp_path / "night.json").read_text())
    row = document["benchmarks"][0]
    for key in theirs.keys() - {"items"}:
        assert type(row[key]) is type(theirs[key]), key
    counters = set(document["context"]["tfscale"]["counters"])
    assert row.keys() - theirs.keys() - counters == {"label", "tfscale_kind"}
    assert row["real_time"] == pytest.approx(stored[1].records[0].quantities["step_time"].value * 1e9)  # type: ignore[operator]
    assert [r["repetition_index"] for r in document["benchmarks"]] == [0, 1, 0, 1]
    assert len({r["run_name"] for r in document["benchmarks"]}) == 2


def test_a_file_of_the_library_is_read_in_seconds_and_without_its_aggregates(real: Path, tmp_path: Path) -> None:
    answer = transfer.import_(real, "google-benchmark", tmp_path, {})
    theirs = [row for row in json.loads(real.read_text())["benchmarks"] if row["run_type"] == "iteration"]
    document = imported(answer)
    assert [row.name for row in document.rows] == [row["run_name"] for row in theirs]
    for row, their in zip(document.rows, theirs, strict=True):
        assert row.quantities["real_time"].value == pytest.approx(their["real_time"] * 1e-9, rel=1e-12)
        assert row.quantities["cpu_time"].value == pytest.approx(their["cpu_time"] * 1e-9, rel=1e-12)
        assert row.quantities["items"].value == 3
        assert row.quantities["real_time"].n_samples == their["iterations"]
    assert "aggregate rows" in answer.lost[0]
    assert document.origin.made is not None and "google benchmark 1." in str(document.origin.tool)


def night(date: str, seconds: float) -> str:
    rows = [
        {"name": "a", "run_name": "a", "run_type": "iteration", "time_unit": "ms", "real_time": t, "cpu_time": t}
        for t in (seconds * 1e3 - 1, seconds * 1e3 + 1)
    ]
    return json.dumps({"context": {"date": date}, "benchmarks": rows})


def test_nights_become_one_series_in_the_order_of_their_dates(tmp_path: Path) -> None:
    answer = None
    dates = ("2026-03-02T00:30:00+02:00", "2026-03-01T23:00:00+00:00", "2026-03-01T02:00:00Z")
    for number, date in enumerate(dates):
        (tmp_path / f"{number}.json").write_text(night(date, number + 1.0))
        answer = transfer.import_(tmp_path / f"{number}.json", "google-benchmark", tmp_path / "results", {})
    assert answer is not None
    lines = Path(str(answer.series)).read_text().splitlines()
    assert lines[0] == "date,a"
    # 00:30 at +02:00 is 22:30 UTC, before 23:00 UTC of the second file.
    assert [float(line.split(",")[1]) for line in lines[1:]] == pytest.approx([3.0, 1.0, 2.0])
    again = transfer.import_(tmp_path / "0.json", "google-benchmark", tmp_path / "results", {})
    assert Path(str(again.series)).read_text().splitlines() == lines, "the same file is one point, however often read"


ROW = {"name": "a", "run_type": "iteration", "real_time": 1.0, "cpu_time": 1.0, "time_unit": "ns"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"\xff\xfe\x00\x01", "not UTF-8 text"),
        (b'{"context": {}, "benchmarks": [', "not JSON"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"context": {}}', "not google-benchmark JSON"),
        (b"[]", "not google-benchmark JSON"),
        (b'{"context": {}, "benchmarks": []}', "no benchmark in it"),
        (b'{"context": {}, "benchmarks": [3]}', r"benchmarks\[0\] is no benchmark"),
        (json.dumps({"context": {}, "benchmarks": [{**ROW, "real_time": "fast"}]}).encode(), "'fast' is not a number"),
        (b'{"context": {}, "benchmarks": [{"name": "a", "real_time": NaN}]}', "NaN is not a number"),
        (b'{"context": {}, "benchmarks": [{"name": "a", "real_time": 1e999}]}', "1e999 is too large"),
        (json.dumps({"context": {}, "benchmarks": [{**ROW, "real_time": 10**400}]}).encode(), "is not a number"),
        (json.dumps({"context": {}, "benchmarks": [{**ROW, "time_unit": "h"}]}).encode(), "time_unit 'h'"),
        (json.dumps({"context": {}, "benchmarks": [{"name": "a"}]}).encode(), "no real_time"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_file_that_is_none_is_named_and_nothing_is_written(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "odd.json").write_bytes(content)
    with pytest.raises(FormatError, match=rf"^odd\.json: (?!odd).*{said}"):
        transfer.import_(tmp_path / "odd.json", "google-benchmark", tmp_path / "results", {})
    assert not (tmp_path / "results").exists()


def test_a_failed_benchmark_is_unknown_with_its_message(tmp_path: Path) -> None:
    row = {**ROW, "error_occurred": True, "error_message": "no device", "real_time": 0.0}
    (tmp_path / "a.json").write_text(json.dumps({"context": {}, "benchmarks": [row]}))
    (found,) = imported(transfer.import_(tmp_path / "a.json", "google-benchmark", tmp_path, {})).rows
    assert (found.quantities["real_time"].value, found.quantities["real_time"].reason) == (None, "no device")
