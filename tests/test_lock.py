"""One run at a time in a results folder: who holds it is named, and nothing stale outlives its process."""

import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfscale.suite.lock import FILE, STAND_IN, HeldError, ResultsLock, told

HOLDER = """
import sys, time
from pathlib import Path
from tfscale.suite.lock import ResultsLock
with ResultsLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds the lock of `tmp_path`."""
    words = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_run_is_refused_and_told_who_holds_the_folder(holder: "subprocess.Popen[str]", tmp_path: Path) -> None:
    with pytest.raises(HeldError, match=f"process {holder.pid} on {socket.gethostname()}, since 2") as refused:
        ResultsLock(tmp_path).__enter__()
    assert str(tmp_path) in str(refused.value) and "--results" in str(refused.value)


def test_a_killed_holder_leaves_nothing_to_clean_away(holder: "subprocess.Popen[str]", tmp_path: Path) -> None:
    holder.kill()
    holder.wait()
    with ResultsLock(tmp_path) as lock:
        assert json.loads((tmp_path / FILE).read_text())["pid"] == os.getpid()
        assert lock.note is None
    assert (tmp_path / FILE).read_text() == ""


def test_a_run_folder_is_locked_with_the_folder_it_lies_in(holder: "subprocess.Popen[str]", tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/suite.yaml").touch()
    with pytest.raises(HeldError):
        ResultsLock(tmp_path / "run").__enter__()


def test_the_lock_does_not_pass_to_children(tmp_path: Path) -> None:
    with ResultsLock(tmp_path):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
    try:
        with ResultsLock(tmp_path):
            pass
    finally:
        child.kill()
        child.wait()


@pytest.fixture
def no_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a network disk whose server has no locks."""

    def flock(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)


def test_without_flock_a_file_stands_for_the_lock_and_says_so(no_flock: None, tmp_path: Path) -> None:
    with ResultsLock(tmp_path) as lock:
        assert "disk without locks" in (lock.note or "")
        with pytest.raises(HeldError, match=f"process {os.getpid()} .*If that run has ended, delete"):
            ResultsLock(tmp_path).__enter__()
    assert not (tmp_path / STAND_IN).exists()


@pytest.mark.parametrize(("host", "free"), [(socket.gethostname(), True), ("elsewhere", False)])
def test_a_stand_in_of_a_dead_process_is_taken_over_on_its_own_host_only(
    host: str, free: bool, no_flock: None, tmp_path: Path
) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    (tmp_path / STAND_IN).write_text(
        json.dumps({"pid": dead.pid, "host": host, "command": "tfscale run x", "since": "t"})
    )
    if free:
        with ResultsLock(tmp_path):
            assert json.loads((tmp_path / STAND_IN).read_text())["pid"] == os.getpid()
    else:
        with pytest.raises(HeldError, match=r"`tfscale run x`, process .* on elsewhere"):
            ResultsLock(tmp_path).__enter__()


def test_a_holder_that_said_nothing_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("[half")
    assert "has not said which" in told(tmp_path / FILE)
