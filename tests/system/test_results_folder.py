"""Results that cannot be kept: a full, read-only or vanished disk ends the run with a clear error; `--resume` completes.

The disks are small real file systems, for which the test mounts a tmpfs; without root it skips.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_stub
from toy_kills import assert_nothing_left

from tfscale.suite import store, writable

pytestmark = pytest.mark.system
PATIENT = {"launch_s": 30, "join_s": 30, "first_step_s": 30, "step_s": 30}


_MS_RDONLY, _MS_REMOUNT = 1, 32


class Disk:
    """A file system of its own."""

    def __init__(self, path: Path, megabytes: int) -> None:
        self.path = path
        path.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", path], capture_output=True, text=True
        )
        if mounted.returncode:
            pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")

    def fill(self, leave: int) -> Path:
        """Take all of it but `leave` bytes."""
        filler = self.path / "filler"
        size = shutil.disk_usage(self.path).free - leave
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        return filler

    def make(self, read_only: bool) -> None:
        """Remount it. The kernel refuses while a file is open for writing, so this waits for a moment between cases."""
        flags = _MS_REMOUNT | (_MS_RDONLY if read_only else 0)
        deadline = time.monotonic() + 30
        while ctypes.CDLL(None, use_errno=True).mount(None, bytes(self.path), None, flags, None):
            assert time.monotonic() < deadline, os.strerror(ctypes.get_errno())
            time.sleep(0.001)

    def remove(self) -> None:
        subprocess.run(["umount", "-l", self.path], check=False, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    made = Disk(tmp_path / "disk", 24)
    yield made
    made.remove()


def suite(tmp_path: Path, cases: int, preset: str = "good") -> Path:
    return toy_stub.suite(tmp_path / "suite.yaml", [preset] * cases, **PATIENT)


def wait_for_records(harness: "subprocess.Popen[str]", results: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(list(results.rglob("record.json"))) < count:
        assert time.monotonic() < deadline and harness.poll() is None, "no record came"
        time.sleep(0.02)


def resumed(path: Path, results: Path, cases: int) -> None:
    """`--resume` runs what is missing, and nothing else."""
    before = {file: file.stat().st_mtime_ns for file in results.rglob("record.json")}
    done = toy_stub.run(path, results, "--resume", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert len(document["records"]) == cases and not document["failed"] and not document["missing"]
    assert all(file.stat().st_mtime_ns == at for file, at in before.items())


def test_a_disk_that_fills_up_ends_the_run_and_resume_completes(disk: Disk, tmp_path: Path) -> None:
    path, results = suite(tmp_path, 6), disk.path / "results"
    harness = toy_stub.start(path, results)
    wait_for_records(harness, results, 2)
    filler = disk.fill(leave=20_000)
    out, told = harness.communicate(timeout=60)
    assert harness.returncode == 3, (out, told)
    assert f"results cannot be written to {results}" in told and "No space left on device" in told
    assert "Traceback" not in told and "free some space" in told
    assert_nothing_left(harness.pid, results)
    found = store.find_records(results)
    assert 2 <= len(found.records) < 6 and not found.warnings and not found.failures
    again = toy_stub.run(path, results, "--resume")
    assert again.returncode == 3 and "No space left on device" in again.stderr
    filler.unlink()
    resumed(path, results, 6)


def test_a_read_only_disk_is_named(disk: Disk, tmp_path: Path) -> None:
    path, results = suite(tmp_path, 5), disk.path / "results"
    harness = toy_stub.start(path, results)
    wait_for_records(harness, results, 1)
    disk.make(read_only=True)
    out, told = harness.communicate(timeout=60)
    assert harness.returncode == 3, (out, told)
    assert "Read-only file system" in told and str(results) in told and "Traceback" not in told
    assert_no_process(harness.pid, results)
    for tried, options in ((results, ["--resume"]), (disk.path / "new", [])):
        again = toy_stub.run(path, tried, *options)
        assert again.returncode == 3 and "Read-only file system" in again.stderr and str(tried) in again.stderr
    disk.make(read_only=False)
    resumed(path, results, 5)


def assert_no_process(harness: int, results: Path) -> None:
    assert_nothing_left(harness, results / "nowhere")


def test_a_vanished_disk_ends_the_run_and_nothing_is_written_in_its_place(disk: Disk, tmp_path: Path) -> None:
    path, results = suite(tmp_path, 6), disk.path / "results"
    beside = tmp_path / "beside"
    beside.mkdir()
    subprocess.run(["mount", "--bind", disk.path, beside], check=True)
    try:
        harness = toy_stub.start(path, results)
        wait_for_records(harness, results, 1)
        disk.remove()
        out, told = harness.communicate(timeout=60)
        assert harness.returncode == 3, (out, told)
        assert "is gone" in told and str(results) in told and "Traceback" not in told
        assert_no_process(harness.pid, results)
        assert not list(results.rglob("record.json")), "a record was written beside the others"
        resumed(path, beside / "results", 6)
    finally:
        subprocess.run(["umount", "-l", beside], check=False)


def test_a_deleted_results_folder_ends_the_run(tmp_path: Path) -> None:
    path, results = suite(tmp_path, 4), tmp_path / "results"
    harness = toy_stub.start(path, results)
    wait_for_records(harness, results, 1)
    results.rename(tmp_path / "moved")
    out, told = harness.communicate(timeout=60)
    assert harness.returncode == 3, (out, told)
    assert "is gone" in told and "Traceback" not in told
    assert_no_process(harness.pid, results)
    resumed(path, tmp_path / "moved", 4)


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    path, results = suite(tmp_path, 40), tmp_path / "results"
    harness = toy_stub.start(path, results)
    wait_for_records(harness, results, 1)
    second = toy_stub.run(path, results)
    assert second.returncode == 2
    assert f"process {harness.pid} on" in second.stderr and "--launcher toy_stub:StubLauncher" in second.stderr
    shown = toy_stub.report(results, tmp_path / "page.html")
    assert shown.returncode == 0, shown.stderr  # what only reads takes no lock
    harness.send_signal(signal.SIGINT)
    assert harness.wait(60) == 3
    assert len(list(results.glob("*/suite.yaml"))) == 1


def test_a_folder_that_nobody_may_write_is_named_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    done = toy_stub.run(suite(tmp_path, 1), tmp_path / "results")
    assert done.returncode == 3 and f"results cannot be written to {tmp_path / 'results'}" in done.stderr


def test_the_probe_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").touch()
    writable.check(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["suite.yaml"]
