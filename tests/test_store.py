"""The results folder: whole documents or none, and nothing in it that can crash a reader."""

import datetime
import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "toy"))
import fake_launcher as fake
import toy_bench as toy

from tfscale.suite import migrate, store
from tfscale.suite.history import history
from tfscale.suite.record import Record, Run
from tfscale.suite.runfolder import RunFolder, StoreError, latest_run, new_run_id
from tfscale.suite.schemas import schemas
from tfscale.suite.spec import Measure


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Two cases of two trials under `tmp_path`; the second case has a failed trial."""

    def act(plan: Any) -> int | None:
        failing = plan.case.preset == "b" and plan.trial == 1
        return fake.fails("hung")(plan) if failing else fake.good(plan)

    cases = [toy.case("a"), toy.case("b")]
    return toy.sweep(cases, tmp_path, fake.FakeLauncher(act), Measure(trials=2)).run()


def record_files(path: Path) -> list[Path]:
    return sorted(path.rglob("record.json"))


def test_every_kind_of_path_will_do(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / run.run
    one = folder / run.records[0].case_id / "0" / "record.json"
    for path, records in ((tmp_path, 3), (folder, 3), (one.parent.parent, 2), (one.parent, 1), (one, 1)):
        found = store.find_records(path)
        assert len(found.records) == records, path
        assert not found.warnings
    for path in (tmp_path, folder, one):
        assert store.load_run(path).run.run == run.run
    loaded = store.load_run(tmp_path)
    assert loaded.run == run
    assert set(loaded.blocks) == {record.id for record in run.records}
    assert "rank0/group_end_ns" in loaded.blocks[run.records[0].id]


def test_a_path_without_results_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        store.find_records(tmp_path / "none")
    assert not store.find_records(tmp_path).records
    with pytest.raises(StoreError, match=r"is no run folder and holds none"):
        store.load_run(tmp_path)


def test_a_record_cut_at_any_length_is_reported_and_skipped(run: Run, tmp_path: Path) -> None:
    victim, others = record_files(tmp_path)[0], len(run.records) - 1
    whole = victim.read_bytes()
    for length in range(0, len(whole.rstrip()), max(1, len(whole) // 400)):
        victim.write_bytes(whole[:length])
        found = store.find_records(tmp_path)
        assert len(found.records) == others
        assert len(found.warnings) == 1 and str(victim) in found.warnings[0]
    victim.write_bytes(whole)
    assert len(store.find_records(tmp_path).records) == others + 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe\x00", "half-written or not JSON"),
        (b"[]", "not a JSON object"),
        (b"[" * 100_000, "half-written or not JSON"),
        (b'{"schema": "tfscale.record/1"}', "not a document of this schema"),
        (b'{"schema": "tfscale.record/2"}', "is newer than"),
        (b'{"schema": "tfscale.record/0"}', "is older than"),
        (b'{"schema": "tfscale.case/1"}', "is not a tfscale.record document"),
        (b'{"schema": 3}', "is not one of tfscale's"),
        (b"{}", "is not one of tfscale's"),
    ],
)
def test_foreign_files_are_reported_and_skipped(run: Run, tmp_path: Path, content: bytes, said: str) -> None:
    record_files(tmp_path)[0].write_bytes(content)
    found = store.find_records(tmp_path)
    assert len(found.records) == len(run.records) - 1
    assert said in found.warnings[0]


def test_an_unreadable_or_missing_file_is_reported(run: Run, tmp_path: Path) -> None:
    victim = record_files(tmp_path)[0]
    (victim.parent / "blocks.npz").write_bytes(b"no zip")
    victim.unlink()
    victim.mkdir()
    other = record_files(tmp_path)[1].parent / "blocks.npz"
    other.unlink()
    loaded = store.load_run(tmp_path)
    assert len(loaded.run.records) == 2
    assert any("no block times" in warning for warning in loaded.warnings)


def test_a_left_over_temporary_file_is_reported(run: Run, tmp_path: Path) -> None:
    left = record_files(tmp_path)[0].with_name(".record.json.123.tmp")
    left.write_text("{")
    assert store.find_records(tmp_path).warnings == [f"{left}: left over from a write that was interrupted"]


def test_an_older_schema_is_migrated(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = record_files(tmp_path)[0]
    document = json.loads(victim.read_text())
    document["case_name"] = document.pop("case_id")
    victim.write_text(json.dumps({**document, "schema": "tfscale.record/0"}))

    def upgrade(old: migrate.Document) -> migrate.Document:
        renamed = {key: value for key, value in old.items() if key != "case_name"}
        return {**renamed, "case_id": old["case_name"], "schema": "tfscale.record/1"}

    monkeypatch.setitem(migrate.MIGRATIONS, "tfscale.record/0", upgrade)
    assert not store.find_records(tmp_path).warnings


def test_trials_are_in_order_of_their_numbers(tmp_path: Path) -> None:
    run = toy.sweep([toy.case()], tmp_path, fake.FakeLauncher(), Measure(trials=11)).run()
    assert [record.trial for record in store.find_records(tmp_path).records] == list(range(11))
    assert run.cases[0].quantities["step_time"].n_trials == 11


def test_run_ids_sort_by_time() -> None:
    times = [datetime.datetime(2025, 1, 1, 0, 0, 0, ms * 1000, tzinfo=datetime.UTC) for ms in (0, 9, 10, 999)]
    ids = [new_run_id(at) for at in times]
    assert ids == sorted(ids)
    assert len({new_run_id(times[0]) for _ in range(50)}) > 40


def test_the_latest_run(tmp_path: Path) -> None:
    assert latest_run(tmp_path / "none") is None
    first = RunFolder.create(tmp_path, "name: a", {})
    second = RunFolder.create(tmp_path, "name: b", {})
    (tmp_path / "zzz").mkdir()
    assert latest_run(tmp_path) == max(first.path, second.path)
    assert RunFolder.open(first.path) == first
    assert first.environment() == {}


def test_a_record_replaces_the_failure_of_its_trial(run: Run, tmp_path: Path) -> None:
    failed = run.failed[0]
    folder = RunFolder(tmp_path / run.run)
    record = run.records[0].model_copy(update={"case_id": failed.case_id, "trial": failed.trial})
    folder.write_record(record)
    assert not store.find_records(tmp_path).failures


def test_history_is_one_table_of_all_runs(run: Run, tmp_path: Path) -> None:
    toy.sweep([toy.case("a")], tmp_path, fake.FakeLauncher()).run()
    connection, found = history(tmp_path)
    assert len(found.records) == 4
    query = "select run, count(*), min(value) from records where metric = 'step_time' group by run order by run"
    rows = connection.sql(query).fetchall()
    assert [row[1] for row in rows] == [3, 1]
    assert rows[0][2] == pytest.approx(0.01, rel=0.01)
    axes = "select distinct axes->>'preset' from records where host = 'here' order by 1"
    assert connection.sql(axes).fetchall() == [("a",), ("b",)]
    null = connection.sql("select reason from records where metric = 'mfu' and value is null limit 1").fetchall()
    assert "no peak" in null[0][0]


def test_history_of_nothing_is_an_empty_table(tmp_path: Path) -> None:
    connection, _ = history(tmp_path)
    assert connection.sql("select count(*) from records").fetchall() == [(0,)]


def test_documents_satisfy_their_exported_schemas(run: Run) -> None:
    exported = schemas()
    names = [
        *("record", "case", "run", "curve", "failure", "trace", "doctor", "environment_diff", "bench_collectives"),
        *("imported", "import", "export", "rendered"),
    ]
    names += ["recovery", "compare", "pairing", "gate", "detect"]
    assert set(exported) == {f"tfscale.{name}/1" for name in names}
    document = run.records[0].model_dump(mode="json", by_alias=True)
    schema = exported["tfscale.record/1"]
    assert set(schema["required"]) <= set(document) <= set(schema["properties"])
    assert schema["properties"]["schema"]["const"] == "tfscale.record/1"
    assert Record.model_validate(document) == run.records[0]
