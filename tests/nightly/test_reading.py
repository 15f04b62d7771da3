"""Many records, and whatever lies between them."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import histories as made

from tfscale.suite import store
from tfscale.suite.nightly import reading
from tfscale.suite.nightly.series import series_of
from tfscale.suite.runfolder import StoreError


def test_it_reads_what_the_store_reads(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100, made.VIT: 50}, 3)
    whole, quick = store.find_records(tmp_path), reading.read(tmp_path)
    assert not whole.warnings and not quick.warnings
    assert sorted((t.run, t.case_id, t.trial, t.value) for t in quick.trials) == sorted(
        (r.run, r.case_id, r.trial, r.quantities["throughput"].value) for r in whole.records
    )
    assert all(
        t.path == whole.folders[f"{t.run}/{t.case_id}/{t.trial}"].resolve() / "record.json" for t in quick.trials
    )
    assert len({id(t.around) for t in quick.trials}) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[: len(b) // 2],
        lambda b: b"",
        lambda b: b"\xff\xfe",
        lambda b: b"[" * 100_000,
        lambda b: b"[]",
        lambda b: b.replace(b"tfscale.record/1", b"tfscale.record/7"),
        lambda b: b.replace(b'"case_id"', b'"case"'),
        lambda b: b.replace(b'"trial": 0', b'"trial": "x"'),
        lambda b: json.dumps(json.loads(b) | {"environment": "none"}).encode(),
        lambda b: json.dumps(json.loads(b) | {"quantities": {"throughput": {"value": "fast"}}}).encode(),
    ],
)
def test_a_damaged_record_is_named_and_skipped(tmp_path: Path, damage: object) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100}, 3)
    victim = sorted(tmp_path.rglob("record.json"))[0]
    victim.write_bytes(damage(victim.read_bytes()))  # type: ignore[operator]
    history = reading.read(tmp_path)
    assert len(history.trials) == 8
    assert [str(victim) in warning for warning in history.warnings] == [True]


def test_invalid_and_unknown_throughputs_are_no_values(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    results.night({made.BERT: [100.0]}, status="INVALID")
    results.night({made.BERT: [100.0, 101.0]})
    victim = sorted(tmp_path.rglob("record.json"))[1]
    told = json.loads(victim.read_text())
    told["quantities"]["throughput"] |= {"value": None, "reason": "none"}
    victim.write_text(json.dumps(told))
    assert [t.value for t in reading.read(tmp_path).trials] == [None, None, 101.0]
    [series] = series_of(reading.read(tmp_path))
    assert [night.values for night in series.nights] == [(), (101.0,)]
    assert series.nights[0].reason == "every trial is INVALID"


def test_a_run_or_a_record_is_the_last_night(tmp_path: Path) -> None:
    runs = made.steady(made.Results(tmp_path), {made.BERT: 100}, 4)
    for path in (tmp_path / runs[1], next((tmp_path / runs[1]).rglob("record.json"))):
        assert [run.run for run in reading.read(path).runs] == runs[:2]
    assert len(reading.read(tmp_path).runs) == 4


def test_a_path_without_runs_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        reading.read(tmp_path / "none")
    with pytest.raises(StoreError, match="holds no run"):
        reading.read(tmp_path)
    made.steady(made.Results(tmp_path), {made.BERT: 100}, 1)
    with pytest.raises(StoreError, match="no run of the suite 'quick'"):
        reading.read(tmp_path, "quick")


def test_machines_are_never_mixed(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100}, 3)
    other = {"cpu": made.ENVIRONMENT["cpu"] | {"model": "Another"}}
    made.steady(results, {made.BERT: 50}, 2, environment=other)
    series = series_of(reading.read(tmp_path))
    assert sorted(len(one.nights) for one in series) == [2, 3]
    assert not any(one.missing for one in series)


def test_the_same_machine_with_another_name_clock_and_driver_is_one_series(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100}, 2)
    model = made.ENVIRONMENT["cpu"]["model"] + " @ 3.10GHz"
    new = {"host": "renamed", "kernel": "7", "cpu": made.ENVIRONMENT["cpu"] | {"model": model}}
    made.steady(results, {made.BERT: 100}, 2, environment=new)
    [series] = series_of(reading.read(tmp_path))
    assert len(series.nights) == 4
