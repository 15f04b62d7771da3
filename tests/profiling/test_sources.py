"""Paths and bad input: a clear error that names the file, and never a crash; nothing is written beside a trace."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
from toy_timeline import E, Timeline

from tfscale.harness import app
from tfscale.suite.profiling import sources
from tfscale.suite.profiling.table import TraceError

GOOD = (
    Timeline(host="a")
    .line("/host:CPU", "python", [E("train", 0, 100, step_num=0, _r=1)])
    .line("/host:CPU", "tf_Compute/1", [E("a/MatMul:MatMul", 10, 20)])
    .bytes()
)
LAUNCHED = {"stream": 7, "device": 0, "correlation": 5}
CHROME = {
    "traceEvents": [
        {"ph": "X", "name": "ProfilerStep#3", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": 0, "dur": 100.5},
        {"ph": "X", "name": "gemm", "cat": "kernel", "pid": 0, "tid": 7, "ts": 10.25, "dur": 20, "args": LAUNCHED},
        {"ph": "X", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 5, "dur": 1, "args": {"correlation": 5}},
        {"ph": "B", "name": "outer", "pid": 1, "tid": 2, "ts": 1},
        {"ph": "E", "pid": 1, "tid": 2, "ts": 4},
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
    ]
}


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def bomb() -> bytes:
    return gzip.compress(b'{"traceEvents": [' + b" " * 300_000_000)


BAD = {
    "empty.xplane.pb": (b"", "empty file"),
    "text.xplane.pb": (b"this is no protobuf at all\n" * 9, r"not a whole XSpace protobuf: .* at byte \d+"),
    "short.xplane.pb": (GOOD[: len(GOOD) // 2], rf"at byte \d+ of {len(GOOD) // 2}"),
    "planes.xplane.pb": (b"\x22\x01h", "without planes"),
    "empty.json": (b"", "empty file"),
    "cut.json": (b'{"traceEvents": [{"ph": "X", "ts": 1', "not a Chrome trace"),
    "other.json": (b'{"a": 1}', "not a Chrome trace"),
    "none.json": (b'{"traceEvents": []}', "without complete events"),
    "number.json": (b"17", "not a Chrome trace"),
    "deep.json": (b"[" * 100_000, "not a Chrome trace"),
    "far.json": (b'[{"ph":"X","name":"a","ts":1e300,"dur":1},{"ph":"X","name":"a","ts":1,"dur":1}]', "no clock shows"),
    "back.json": (b'[{"ph":"X","name":"a","ts":1,"dur":-5}]', "no clock shows"),
    "cut.json.gz": (gzip.compress(json.dumps(CHROME).encode())[:60], "damaged gzip"),
    "bomb.json.gz": (bomb(), "expand to more than"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_trace_is_refused_by_name(name: str, tmp_path: Path) -> None:
    data, words = BAD[name]
    path = write(tmp_path / name, data)
    with pytest.raises(TraceError, match=words) as found:
        sources.load([path])
    assert str(path) in str(found.value)
    done = CliRunner().invoke(app, ["trace", str(path)])
    assert (done.exit_code, done.stdout) == (2, "")


def test_the_byte_where_a_file_breaks_is_named(tmp_path: Path) -> None:
    """Every cut of a small file either parses (at a field's end) or breaks at or before the cut, deep in a message."""
    named = 0
    for length in range(1, len(GOOD)):
        path = write(tmp_path / "cut.xplane.pb", GOOD[:length])
        try:
            sources.load([path])
        except TraceError as error:
            named += "at byte" in str(error)
    assert named > len(GOOD) / 2


def test_a_path_may_be_a_file_a_profile_a_log_directory_or_a_run(tmp_path: Path) -> None:
    old = write(tmp_path / "rank0/plugins/profile/2026_01_01/a.xplane.pb", GOOD)
    new = write(tmp_path / "rank0/plugins/profile/2026_01_02/a.xplane.pb", GOOD)
    other = write(tmp_path / "rank10/plugins/profile/2026_01_02/a.xplane.pb", GOOD)
    second = write(tmp_path / "rank2/plugins/profile/2026_01_02/a.xplane.pb", GOOD)
    notes: list[str] = []
    assert sources.files_of(old, notes) == [old]
    assert sources.files_of(new.parent, notes) == [new]
    assert notes == []
    assert sources.files_of(tmp_path / "rank0", notes) == [new]
    assert "2 profiles; the newest" in notes[0]
    assert sources.files_of(tmp_path, notes) == [new, second, other]


def test_the_cases_of_a_run_are_different_jobs(tmp_path: Path) -> None:
    def ranks(run: str, case: str) -> list[Path]:
        place = f"{run}/{case}/profile/rank{{}}/plugins/profile/2026_01_01/a.xplane.pb"
        return [write(tmp_path / place.format(rank), GOOD) for rank in (0, 1)]

    old, new = ranks("run1", "aaa"), ranks("run2", "aaa")
    notes: list[str] = []
    assert sources.files_of(tmp_path, notes) == new
    assert sources.files_of(tmp_path / "run1", notes) == sources.files_of(tmp_path / "run1/aaa", notes) == old
    assert notes == [f"{tmp_path} holds 2 runs with profiles; the newest, run2, is read"]
    ranks("run2", "bbb")
    with pytest.raises(TraceError, match=r"profiles of 2 cases; name one of .*run2/aaa/profile, .*run2/bbb/profile"):
        sources.files_of(tmp_path, notes)


def test_other_json_in_a_run_is_no_trace(tmp_path: Path) -> None:
    write(tmp_path / "record.json", b'{"schema": "tfscale.record/1"}')
    trace = write(tmp_path / "t.json.gz", gzip.compress(json.dumps(CHROME).encode()))
    assert sources.files_of(tmp_path, []) == [trace]


@pytest.mark.parametrize("name", ["nothing", "folder"])
def test_a_path_without_a_trace_says_what_is_there(name: str, tmp_path: Path) -> None:
    write(tmp_path / "folder/notes.txt", b"x")
    with pytest.raises(TraceError, match=r"does not exist|holds no trace .*notes\.txt"):
        sources.load([tmp_path / name])


def test_two_files_of_one_host_name_are_two_hosts(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{i}.xplane.pb", GOOD) for i in range(3)]
    loaded = sources.load(paths)
    assert [trace.host for trace in loaded.traces] == ["a", "a#2", "a#3"]
    assert len(loaded.notes) == 2
    assert "called a#3" in loaded.notes[1]


def test_chrome_json_by_hand(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", json.dumps(CHROME).encode())
    done = CliRunner().invoke(app, ["trace", "--json", str(path)])
    (device,) = json.loads(done.stdout)["hosts"][0]["devices"]
    assert (device["device"], device["step_source"]) == ("/device:GPU:0", "markers")
    (step,) = device["steps"]
    assert (step["step"], step["span_ps"], step["parts"]["compute"]) == (3, 20_000_000, 20_000_000)


def test_a_name_without_an_ending_is_read_by_what_it_holds(tmp_path: Path) -> None:
    for name, data in (("a.bin", GOOD), ("b.bin", json.dumps(CHROME).encode())):
        assert len(sources.load([write(tmp_path / name, data)]).traces) == 1


def test_nothing_is_written_beside_a_trace(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "logs/plugins/profile/2026_01_01"
    write(folder / "a.xplane.pb", GOOD)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "logs").rglob("*")}
    folder.chmod(0o555)
    done = subprocess.run(
        [sys.executable, str(root / "harness.py"), "trace", str(tmp_path / "logs"), "--html", str(tmp_path / "x.html")],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "logs").rglob("*")} == before
    assert "<!doctype html>" in (tmp_path / "x.html").read_text()[:40]
