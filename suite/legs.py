"""A training in several launches, each a leg: what was seen of each, kept beside it so that a later run can go on.

All times are seconds of the harness's `time.perf_counter`. A rank stamps what it tells with a clock of its own, which may
be another machine's; the least of (arrival - stamp) over all that it told is taken as the difference, which is then too
large by the shortest time that a message took to be read.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from tfscale.suite.events import EventReader
from tfscale.suite.launchers import procfs
from tfscale.suite.planner import rank_folder
from tfscale.suite.rankfiles import write_atomic
from tfscale.suite.ranks import launch_told
from tfscale.suite.record import FaultClass

FILE = "legs.json"
End = Literal["done", "failed", "stopped"]
"""stopped: by Ctrl-C, or preempted."""


class Leg(BaseModel):
    """One launch of a training."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    number: int
    resume_step: int | None
    end: End
    clock: str
    """Whose perf_counter the times are of: those of another harness cannot be compared."""
    reached_step: int | None = None
    """The furthest step that any rank told of; None: none was completed."""
    struck_s: float | None = None
    """When the planned fault came; None: it did not."""
    phases_s: dict[str, float] = {}
    """Phase -> when the last rank told that it had passed it."""
    noticed_s: float | None = None
    ended_s: float
    """When no process of the launch was left."""
    classification: FaultClass | None = None
    reason: str | None = None
    rank: int | None = None
    log_tail: str = ""
    kept: dict[int, list[int]] = {}
    """Rank -> steps of which it last said that it has whole checkpoints; a rank that never said is missing."""
    start: str | None = None
    """How ranks were started (forked or fresh), where the launcher notes it."""


_LEGS = TypeAdapter(list[Leg])


def read(folder: Path) -> list[Leg]:
    """The legs of the training in `folder`; none where there is no whole account of them."""
    try:
        return _LEGS.validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError):
        return []


def write(folder: Path, legs: Sequence[Leg]) -> None:
    write_atomic(folder / FILE, _LEGS.dump_json(list(legs), indent=1))


def this_clock() -> str:
    """Names this process: its number, and when it was started."""
    return f"{os.getpid()}/{procfs.started(os.getpid())}"


class Observed:
    """Takes in what ranks tell while a leg is running."""

    def __init__(self, cut: Callable[[int], None]) -> None:
        """`cut(rank)` cuts the link of a rank's host, where that is the planned fault and its moment has come."""
        self._cut = cut
        self._offsets: dict[int, float] = {}
        self._told: tuple[int, float] | None = None
        self._cut_s: float | None = None
        self.phases_s: dict[str, float] = {}

    def event(self, rank: int, event: dict[str, Any]) -> None:
        now = time.perf_counter()
        if "t_ns" in event:
            late = now - event["t_ns"] / 1e9
            self._offsets[rank] = min(late, self._offsets.get(rank, late))
        if event["event"] == "phase":
            self.phases_s[event["name"]] = now
        elif event["event"] == "fault" and self._told is None:
            self._told = (rank, event["t_ns"] / 1e9)
            if event["kind"] == "cut":
                self._cut(rank)
                self._cut_s = time.perf_counter()

    @property
    def struck_s(self) -> float | None:
        """When the planned fault came; None where it has not."""
        if self._told is None or self._cut_s is not None:
            return self._cut_s
        rank, stamp = self._told
        return stamp + self._offsets[rank]


def told_of(launch: Path, world: int, before: dict[int, list[int]]) -> tuple[dict[int, list[int]], int | None]:
    """What each rank last said that it has (`before` for one that said nothing in this launch), and the furthest step."""
    kept, reached = dict(before), None
    for rank in range(world):
        for event in EventReader(rank_folder(launch, rank)).read():
            if event["event"] == "checkpoints":
                kept[rank] = [int(step) for step in event["kept"]]
            elif event["event"] == "progress":
                reached = max(reached or 0, int(event["step"]))
    return kept, reached


def start_of(launch: Path, world: int) -> str | None:
    """How the ranks of a launch were started, where their launcher notes it."""
    starts = {launch_told(rank_folder(launch, rank)).get("start") for rank in range(world)}
    return " and ".join(sorted(start for start in starts if start)) or None
