"""What a rank tells while it runs: one JSON line an event, appended to its folder, read by whoever watches."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

Phase = Literal[
    "started",
    "imported",
    "joined",
    "built",
    "checked",
    "traced",
    "first_step",
    "steady",
    "timed",
    "written",
    "profiled",
    "done",
]
PHASES: tuple[Phase, ...] = get_args(Phase)
"""In the order in which a rank passes them. A rank that left `started` has begun to run code of ours."""
FILE = "events.jsonl"


class EventLog:
    """Appends events to `<directory>/events.jsonl`, a line a call, so that a reader never sees half of two."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file = (directory / FILE).open("a", buffering=1)

    def phase(self, name: Phase, **detail: Any) -> None:
        self._write({"event": "phase", "name": name, **detail})

    def progress(self, step: int, step_time_s: float | None = None) -> None:
        """A heartbeat: the last completed step, and the current estimate of a step's time for the deadline."""
        self._write({"event": "progress", "step": step, "step_time_s": step_time_s})

    def checkpoints(self, step: int, kept: Sequence[int]) -> None:
        """After completed step `step`, this rank has whole checkpoints of the steps `kept`, oldest first."""
        self._write({"event": "checkpoints", "step": step, "kept": list(kept)})

    def fault(self, kind: str, step: int) -> None:
        """A planned fault comes over this rank now; `step` is the last that it has completed."""
        self._write({"event": "fault", "kind": kind, "step": step})

    def preempted(self, step: int | None = None) -> None:
        """The rank was warned that it is about to be ended, and leaves; `step` is what it has saved, if anything."""
        self._write({"event": "preempted", "step": step})

    def error(self, reason: str, detail: str) -> None:
        """The rank is about to end with this error."""
        self._write({"event": "error", "reason": reason, "detail": detail})

    def _write(self, event: dict[str, Any]) -> None:
        self._file.write(json.dumps({"t_ns": time.perf_counter_ns(), **event}) + "\n")


class EventReader:
    """Reads what was appended since the last look; a line still being written waits for the next look."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._offset = 0

    def read(self) -> list[dict[str, Any]]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        return [json.loads(line) for line in whole.splitlines() if line.strip()]
