"""Seconds spent in the named phases of a rank."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Phases:
    """`with phases("join"): ...` adds the seconds of the block to `seconds["join"]`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter_ns()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + (time.perf_counter_ns() - start) / 1e9
