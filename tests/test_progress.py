"""Progress on a terminal of any size stays within it; into a file go lines. The terminal is a real one (pty)."""

import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent / "toy"))
import toy_bench as toy

from tfscale.suite.display import Plain
from tfscale.suite.notices import Notice
from tfscale.suite.progress import Progress, duration
from tfscale.suite.record import Quantity
from tfscale.suite.spec import Case

TIME = Quantity(value=0.0125, unit="s", kind="measured", statistic="mean")
DONE = SimpleNamespace(quantities={"step_time": TIME}, validity=SimpleNamespace(status="VALID"))
LOST = SimpleNamespace(classification="lost_rank", reason="ended by SIGKILL", rank=1)


def sweep(progress: Progress, cases: list[Case], refresh: bool) -> None:
    """What a run of `cases` tells: every fifth fails."""
    for number, case in enumerate(cases):
        for kind in ("case_started", "trial_started"):
            progress.tell(Notice(kind, case, 0, {}, 90.0))  # type: ignore[arg-type]
        if number % 5 == 4:
            progress.tell(Notice("trial_retry", case, 0, {"retry": LOST}, 90.0))
            progress.tell(Notice("trial_failed", case, 0, {"failure": LOST}, 90.0))
        else:
            progress.tell(Notice("trial_done", case, 0, {"record": DONE}, 90.0))
        if refresh and progress._live:
            progress._live.refresh()
        progress.tell(Notice("case_done", case, None, {}, 90.0))


class Screen:
    """As much of a terminal as rich moves: rows, and how many lines have scrolled away."""

    def __init__(self, rows: int) -> None:
        self.rows, self.at, self.scrolled = rows, 0, 0

    def feed(self, text: str) -> None:
        for part in re.findall(r"\x1b\[(\d*)A|(\n)", text):
            self.at = max(0, self.at - int(part[0] or 1)) if not part[1] else self.at + 1
            if self.at == self.rows:
                self.at, self.scrolled = self.rows - 1, self.scrolled + 1


@contextmanager
def terminal(columns: int, rows: int) -> Iterator[tuple[Plain, list[bytes]]]:
    """A console on a pseudo-terminal of that size, and what was written to it."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    written: list[bytes] = []

    def drain() -> None:
        while True:
            try:
                data = os.read(reader, 1 << 16)
            except OSError:  # the other end is closed
                return
            if not data:
                return
            written.append(data)

    draining = threading.Thread(target=drain)
    draining.start()
    with os.fdopen(writer, "w") as file:
        yield Plain(file=file, width=columns, height=rows), written
    draining.join()
    os.close(reader)


@pytest.mark.parametrize(("columns", "rows"), [(160, 50), (80, 24), (40, 10)])
def test_two_hundred_cases_do_not_scroll_a_terminal(columns: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    cases = toy.numbered(["good"] * 200)
    with terminal(columns, rows) as (console, written), Progress("toy", cases, console) as progress:
        assert progress._live is not None
        sweep(progress, cases, refresh=True)
        progress.ending()
        progress._live.refresh()
    text = b"".join(written).decode()
    screen = Screen(rows)
    screen.feed(text)
    assert screen.scrolled == 0
    assert "199 of 200 ended, 39 failed" in text and "12.5 ms" in text and "lost_" in text
    assert "ending after this case" in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert max(len(line) for line in re.split(r"[\r\n]", plain)) <= columns


def test_into_a_file_go_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as many CI services do
    file, cases = io.StringIO(), toy.numbered(["good"] * 5)
    with Progress("toy", cases, Plain(file=file, width=200)) as progress:
        sweep(progress, cases, refresh=False)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue()).splitlines()
    assert len(lines) == 6  # the fifth case was launched again before it failed
    assert lines[0].startswith("[1/5] workload=toy_bench:WORKLOAD, preset=good")
    assert lines[0].endswith("env=NCCL_TEST=0: 12.5 ms a step, VALID (about 1 min 30 s left)")
    assert lines[4].endswith("lost_rank: ended by SIGKILL; launched again")
    assert lines[5].endswith("failed: lost_rank: ended by SIGKILL (about 1 min 30 s left)")


def test_durations() -> None:
    assert [duration(s) for s in (0.4, 75, 3600, 93784)] == ["0 s", "1 min 15 s", "1 h 00 min", "26 h 03 min"]
