"""The ranks of one local launch: their exit codes, their stacks, and their end."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from tfscale.suite.launchers import procfs
from tfscale.suite.launchers.base import Job
from tfscale.suite.launchers.environment import STACKS
from tfscale.suite.launchers.parent import LOST, WarmParent

_STACK_WAIT_S = 2.0
_KILL_WAIT_S = 20.0


@dataclass(frozen=True)
class Rank:
    """A started rank. Its process leads a session, and a process group, of its own."""

    pid: int
    directory: Path


class LocalJob(Job):
    """Ranks that are children of one parent process; it tells how they ended."""

    def __init__(self, parent: WarmParent) -> None:
        self._parent = parent
        self.ranks: list[Rank] = []

    def add(self, rank: Rank) -> None:
        self.ranks.append(rank)

    def exit_codes(self) -> list[int | None]:
        self._parent.poll()
        alive = self._parent.alive
        return [self._parent.exits.get(rank.pid, None if alive else LOST) for rank in self.ranks]

    def state(self, rank: int) -> str | None:
        """State letter of the rank's process (T: stopped), or None when it is gone."""
        return procfs.state(self.ranks[rank].pid)

    def stacks(self, rank: int) -> str | None:
        pid, path = self.ranks[rank].pid, self.ranks[rank].directory / STACKS
        state = procfs.state(pid)
        if state is None or state == "Z":
            return None
        if state in procfs.FROZEN_STATES:
            return procfs.describe(pid)
        before = _size(path)
        with contextlib.suppress(ProcessLookupError):  # it may end right now; what it wrote before still counts
            os.kill(pid, signal.SIGUSR1)
        return _text_after(path, before) or procfs.describe(pid)

    def end(self, grace_s: float = 2.0) -> None:
        """End every process of the job. Raises RuntimeError when one cannot be ended."""
        if not self._signal(signal.SIGTERM):
            return
        self._signal(signal.SIGCONT)  # a frozen process acts on nothing but SIGKILL
        self._wait(grace_s)
        deadline = time.monotonic() + _KILL_WAIT_S
        while self._signal(signal.SIGKILL):
            if time.monotonic() > deadline:
                raise RuntimeError(f"processes {sorted(self._living())} do not end on SIGKILL")
            self._wait(0.5)

    def _signal(self, number: int) -> bool:
        """Send a signal to all living processes of the ranks' sessions; False when there is none."""
        members = self._living()
        for pid in members:
            with contextlib.suppress(ProcessLookupError):  # ended between the look and the signal
                os.kill(pid, number)
        return bool(members)

    def _living(self) -> set[int]:
        """Living processes of the ranks: their sessions, and a rank that was forked just now and has no session yet."""
        self._parent.poll()
        living = {pid for rank in self.ranks for pid in procfs.session_members(rank.pid)}
        running = (rank.pid for rank in self.ranks if rank.pid not in self._parent.exits)
        return living | {pid for pid in running if procfs.parent_of(pid) == self._parent.pid}

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._living():
            time.sleep(0.02)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _text_after(path: Path, before: int) -> str:
    """What was appended to `path`, once it stops growing; empty when nothing comes."""
    deadline = time.monotonic() + _STACK_WAIT_S
    size = before
    while time.monotonic() < deadline:
        time.sleep(0.05)
        now = _size(path)
        if now > before and now == size:
            with path.open("rb") as file:
                file.seek(before)
                return file.read().decode(errors="replace")
        size = now
    return ""
