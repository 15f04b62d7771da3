"""Ctrl-C: once ends a run after the running case, twice ends it now. SIGTERM or SIGUSR1, the warning of a scheduler that
the machine is about to be taken away, ends it now: ranks with checkpoints save first."""

import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

FIRST = b"\ntfscale: ending after this case; Ctrl-C again ends now, and `--resume` does the rest\n"
_WARNED = b"\ntfscale: warned by the scheduler, saving and ending now; `--resume` does the rest\n"
WARNINGS = (signal.SIGTERM, signal.SIGUSR1)


class Interrupt:
    """Counts requests to stop. As a context manager it takes SIGINT and the warnings for as long as the run lasts."""

    def __init__(self, tell: Callable[[], None] = lambda: _write(FIRST)) -> None:
        """`tell` says that the run will end after the running case; a signal handler calls it."""
        self._tell = tell
        self._requests = 0
        self._before: dict[int, Any] = {}
        self.preempted = False
        """Whether the run was warned that its machine is about to be taken away."""

    def request(self) -> None:
        self._requests += 1

    def preempt(self) -> None:
        """The run was warned: it is to end at once."""
        self.preempted = True

    def after_case(self) -> bool:
        """Whether the run should end once the running case is done."""
        return self.preempted or self._requests >= 1

    def now(self) -> bool:
        """Whether the run should end at once; what the running case has measured is lost."""
        return self.preempted or self._requests >= 2

    def __enter__(self) -> "Interrupt":
        self._before = {signal.SIGINT: signal.signal(signal.SIGINT, self._on_signal)}
        self._before |= {number: signal.signal(number, self._on_warning) for number in WARNINGS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _on_warning(self, number: int, frame: FrameType | None) -> None:
        if not self.preempted:
            os.write(2, _WARNED)
        self.preempt()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.request()
        if self._requests == 1:
            self._tell()
        if self._requests > 2:  # whatever we are waiting for does not look at us
            raise KeyboardInterrupt


def _write(words: bytes) -> None:
    os.write(2, words)  # a handler may interrupt anything, so no library prints here
