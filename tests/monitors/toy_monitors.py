"""Monitors that misbehave, and one that tells what its sampler imported. Not a test module."""

import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from tfscale.suite.monitors.base import Column, Monitor

HEAVY = ("tensorflow", "pandas", "scipy", "seaborn", "numpy", "pydantic", "duckdb", "matplotlib")


class Steady(Monitor):
    """One column that counts its own readings; facts that never change."""

    name = "steady"
    readings = 0

    def columns(self) -> Sequence[Column]:
        return [Column("readings", "1", "counter"), Column("slow", "1", "gauge", slow=True), GONE]

    def sample(self, columns: Sequence[Column]) -> list[float | None]:
        assert GONE not in columns
        if columns[0].slow:
            return [None]
        self.readings += 1
        return [float(self.readings)]

    def facts(self) -> dict[str, Any]:
        return {"heavy": [name for name in HEAVY if name in sys.modules], "nice": os.nice(0)}


GONE = Column("gone", "W", "gauge", "gpu0", state="no_permission", reason="may not be read by this user")


class Raises(Steady):
    """Fails at its third reading."""

    name = "raises"

    def sample(self, columns: Sequence[Column]) -> list[float | None]:
        values = super().sample(columns)
        if self.readings == 3:
            raise OSError(5, "Input/output error")
        return values


class Sleepy(Steady):
    """Takes 0.12 s for each reading."""

    name = "sleepy"

    def sample(self, columns: Sequence[Column]) -> list[float | None]:
        time.sleep(0 if columns[0].slow else 0.12)
        return super().sample(columns)


class Hangs(Steady):
    """Hangs at its second reading."""

    name = "hangs"

    def sample(self, columns: Sequence[Column]) -> list[float | None]:
        values = super().sample(columns)
        if self.readings == 2:
            time.sleep(60)
        return values


class Short(Steady):
    """Gives fewer values than it was asked for."""

    name = "short"

    def sample(self, columns: Sequence[Column]) -> list[float | None]:
        return []


class Broken(Monitor):
    """Cannot be opened."""

    name = "broken"

    def columns(self) -> Sequence[Column]:
        raise RuntimeError("the driver does not match its library")

    def sample(self, columns: Sequence[Column]) -> list[float | None]:
        raise AssertionError("asked although it never opened")
