"""Ctrl-C: once ends a run after the running case, twice ends it now."""

import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

FIRST = b"\ntfscale: ending after this case; Ctrl-C again ends now, and `--resume` does the rest\n"


class Interrupt:
    """Counts requests to stop. As a context manager it takes SIGINT from the terminal for as long as the run lasts."""

    def __init__(self, tell: Callable[[], None] = lambda: _write(FIRST)) -> None:
        """`tell` says that the run will end after the running case; a signal handler calls it."""
        self._tell = tell
        self._requests = 0
        self._before: Any = None

    def request(self) -> None:
        self._requests += 1

    def after_case(self) -> bool:
        """Whether the run should end once the running case is done."""
        return self._requests >= 1

    def now(self) -> bool:
        """Whether the run should end at once; what the running case has measured is lost."""
        return self._requests >= 2

    def __enter__(self) -> "Interrupt":
        self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.request()
        if self._requests == 1:
            self._tell()
        if self._requests > 2:  # whatever we are waiting for does not look at us
            raise KeyboardInterrupt


def _write(words: bytes) -> None:
    os.write(2, words)  # a handler may interrupt anything, so no library prints here
