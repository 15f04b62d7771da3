"""`tfscale export` and `tfscale import` as commands: what is printed, exit codes, and which files may be replaced."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tfscale.suite import registry
from tfscale.suite.formats import transfer
from tfscale.suite.formats.forms import ExportAnswer, ImportAnswer
from tfscale.suite.record import Run

EXPORTS = ("google-benchmark", "openmetrics", "mllog", "csv", "parquet", "tensorboard")


def tfscale(root: Path, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "harness.py", *args], capture_output=True, text=True, cwd=root, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_export_prints_what_is_lost_on_stderr_and_one_document_on_stdout(
    root: Path, stored: tuple[Path, Run], tmp_path: Path
) -> None:
    target = tmp_path / "night.json"
    done = tfscale(root, "export", str(stored[0]), "--format", "google-benchmark", "-o", str(target), "--json")
    answer = ExportAnswer.model_validate(json.loads(done.stdout))
    assert answer.records == tuple(record.id for record in stored[1].records) and answer.runs == (stored[1].run,)
    assert "intervals" in answer.lost
    (line,) = done.stderr.splitlines()
    assert line.startswith("not in it: ") and all(lost in line for lost in answer.lost)
    assert target.is_file()


def test_import_prints_where_things_went(root: Path, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("night,a\nx,1\ny,2\n")
    args = ("import", str(tmp_path / "s.csv"), "--format", "csv", "--results", str(tmp_path / "results"))
    answer = ImportAnswer.model_validate(json.loads(tfscale(root, *args, "--json").stdout))
    assert Path(answer.files[0]).is_file() and Path(str(answer.series)).is_file() and answer.rows == 2
    assert answer.files[0] in tfscale(root, *args, "--option", "kind=measured").stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["export", "docs", "--format", "cvs", "-o", "{}/x.csv"], "did you mean 'csv'"),
        (["import", "docs/images/report.png", "--format", "nccl-tests", "--results", "{}/r"], "not UTF-8 text"),
        (["import", "README.md", "--format", "csv", "--option", "kind", "--results", "{}/r"], "NAME=VALUE"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_bad_input_exits_2_and_writes_nothing(root: Path, tmp_path: Path, args: list[str], words: str) -> None:
    done = tfscale(root, *(arg.format(tmp_path) for arg in args), code=2)
    assert words in done.stderr and done.stdout == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("path", "name", "words"),
    [
        ("none", "csv", "none does not exist"),
        (".", "csv", "no record in"),
        (".", "openmetrics", "is no run folder and holds none"),
        (".", "nccl-tests", "cannot be exported; these can: csv, google-benchmark"),
    ],
)
def test_what_cannot_be_exported_is_named(tmp_path: Path, path: str, name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        transfer.export(tmp_path / path, name, tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("file", "name", "results", "words"),
    [
        ("a.csv", "parquet", "results", "cannot be imported; these can: csv"),
        ("none.csv", "csv", "results", "none.csv does not exist"),
        (".", "csv", "results", "is not a file that can be read"),
        ("a.csv", "csv", "a.csv", "a.csv is not a folder"),
    ],
)
def test_what_cannot_be_imported_is_named(tmp_path: Path, file: str, name: str, results: str, words: str) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match=words):
        transfer.import_(tmp_path / file, name, tmp_path / results, {})
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.parametrize("name", EXPORTS)
def test_only_a_file_of_the_same_format_is_replaced(stored: tuple[Path, Run], tmp_path: Path, name: str) -> None:
    target = tmp_path / "out"
    transfer.export(stored[0], name, target)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    transfer.export(stored[0], name, target)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(before), "the same again, and no rest"
    other = tmp_path / "other"
    if name == "tensorboard":
        other.mkdir()
        (other / "thesis.txt").write_text("years of work")
    else:
        other.write_text("years of work")
    with pytest.raises(ValueError, match=r"-o .*other"):
        transfer.export(stored[0], name, other)
    assert "years of work" in (other / "thesis.txt" if name == "tensorboard" else other).read_text()


@pytest.mark.parametrize("name", [name for name in EXPORTS if name != "tensorboard"])
def test_no_format_is_taken_for_another(stored: tuple[Path, Run], tmp_path: Path, name: str) -> None:
    transfer.export(stored[0], name, tmp_path / name)
    begin = (tmp_path / name).read_bytes()[:4096]
    able = [other for other in registry.names("formats") if registry.load("formats", other).recognise(begin)]
    assert able == [name]


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.csv").open("wb") as file:
        file.truncate(transfer.MOST + 1)
    with pytest.raises(ValueError, match=r"huge\.csv: 268,435,457 bytes; at most 268,435,456"):
        transfer.import_(tmp_path / "huge.csv", "csv", tmp_path / "results", {})


def test_a_damaged_import_of_before_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    row = '{"context": {}, "benchmarks": [{"name": "a", "real_time": %d}]}'
    (tmp_path / "1.json").write_text(row % 1)
    first = transfer.import_(tmp_path / "1.json", "google-benchmark", tmp_path / "results", {})
    Path(first.files[0]).write_text("{")
    (tmp_path / "2.json").write_text(row % 2)
    before = sorted((tmp_path / "results").rglob("*"))
    with pytest.raises(ValueError, match="is damaged: import its file again"):
        transfer.import_(tmp_path / "2.json", "google-benchmark", tmp_path / "results", {})
    assert sorted((tmp_path / "results").rglob("*")) == before


def test_a_record_or_a_run_folder_will_do(stored: tuple[Path, Run], tmp_path: Path) -> None:
    results, run = stored
    one = run.records[1]
    path = results / run.run / one.case_id / str(one.trial) / "record.json"
    for name in ("csv", "google-benchmark"):
        assert transfer.export(path, name, tmp_path / f"one.{name}").records == (one.id,)
        assert len(transfer.export(results / run.run, name, tmp_path / f"run.{name}").records) == 4


def test_imports_do_not_disturb_the_results_they_lie_in(stored: tuple[Path, Run], tmp_path: Path) -> None:
    import shutil

    shutil.copytree(stored[0], tmp_path / "results")
    (tmp_path / "s.csv").write_text("night,a\nx,1\n")
    transfer.import_(tmp_path / "s.csv", "csv", tmp_path / "results", {})
    answer = transfer.export(tmp_path / "results", "csv", tmp_path / "all.csv")
    assert len(answer.records) == 4 and not answer.skipped
