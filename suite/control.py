"""Control between ranks that exchange nothing: a small file in the trial's folder, mapped into every rank.

It gives replicas that run side by side what a collective gives the others: a common start, and decisions of one rank
that all act on at the same dispatch. Every word is written by one rank only.
"""

import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path

FILE = "control.bin"
RING = 1024
"""Dispatches of the deciding rank that stay readable; no rank is ever that far behind it, see `LEAD`."""
LEAD = 64
"""Dispatches that the deciding rank may be ahead of the slowest: it waits there, so that all keep running at once."""
POLL_S = 0.0005


class ControlTimeoutError(RuntimeError):
    """A rank did not come in time."""


class Control:
    """One rank's view. Words of 8 bytes: arrivals and dispatch counts by rank, then a ring of control values."""

    def __init__(self, directory: Path, rank: int, world: int, timeout_s: float) -> None:
        """Maps the file, creating it where no other rank has. All bytes start at zero."""
        path = directory / FILE
        size = 8 * (2 * world + RING)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            os.ftruncate(handle, size)
            self._map = mmap.mmap(handle, size)
        finally:
            os.close(handle)
        self._counts = memoryview(self._map)[: 16 * world].cast("q")
        self._values = memoryview(self._map)[16 * world :].cast("d")
        self._rank = rank
        self._world = world
        self._timeout_s = timeout_s

    def barrier(self) -> None:
        """Return when every rank has come here once more. Raises ControlTimeoutError naming those that did not."""
        self._counts[self._rank] += 1
        target = self._counts[self._rank]
        self._wait(lambda: [r for r in range(self._world) if self._counts[r] < target], "reached the barrier")

    def dispatched(self, value: float) -> int:
        """This rank has dispatched once more; rank 0 gives the control value that goes with it. The dispatch's number."""
        place = self._world + self._rank
        number = self._counts[place]
        if self._rank == 0:
            slowest = number - LEAD
            self._wait(
                lambda: [r for r in range(self._world) if self._counts[self._world + r] < slowest],
                f"dispatched group {slowest}",
            )
            self._values[number % RING] = value
        self._counts[place] = number + 1
        return number

    def value(self, number: int) -> float:
        """The control value of rank 0's dispatch `number`; waits until it is made."""
        self._wait(lambda: [] if self._counts[self._world] > number else [0], f"dispatched group {number}")
        return self._values[number % RING]

    def close(self) -> None:
        self._counts.release()
        self._values.release()
        self._map.close()

    def _wait(self, missing: Callable[[], list[int]], what: str) -> None:
        """Poll until `missing` names no rank."""
        deadline = time.monotonic() + self._timeout_s
        while late := missing():
            if time.monotonic() > deadline:
                raise ControlTimeoutError(f"ranks {late} have not {what} within {self._timeout_s:g} s")
            time.sleep(POLL_S)
