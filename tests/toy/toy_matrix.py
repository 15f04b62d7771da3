"""The fault matrix: what is done to a rank or its machine, and the class that it must end in. Not a test module.

A cell is run as the second of three cases: the first and the last are good, and must stay so. Cells know nothing of the
launcher, so that every launcher can be put through them.
"""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import toy_bench as toy

from tfscale.suite.launchers import ports, procfs
from tfscale.suite.launchers.base import Launcher
from tfscale.suite.launchers.ports import free_ports
from tfscale.suite.planner import Place
from tfscale.suite.record import FaultClass, Record
from tfscale.suite.retrying import INFRASTRUCTURE

MEASURE = toy.QUICK.model_copy(update={"retries": 1})
SLACK_S = 5.0
"""What one launch may take beyond its deadline, on a machine that is busy with other tests."""


@dataclass(frozen=True)
class Cell:
    """One fault; `ends` is the class of the failure, None where the case must have a result."""

    row: str
    preset: str
    ends: FaultClass | None
    late: bool = False
    """Whether it ends by a deadline (MEASURE has 2 s for each) rather than at once."""
    held_ports: int = 0
    """So many launches find a port taken."""

    @property
    def name(self) -> str:
        return f"{self.row.replace(' ', '_')}-{self.preset}" + (f"-{self.held_ports}" if self.held_ports else "")

    @property
    def launches(self) -> int:
        return 4 if self.held_ports else 1 + MEASURE.retries * (self.ends in INFRASTRUCTURE)


_LATE: dict[str, FaultClass] = {
    "start": "never_started", "join": "join_timeout", "first_step": "first_step_timeout", "step": "hung"
}  # fmt: skip
"""Moment at which a rank stops moving -> the deadline that ends its case."""
BOTH = (1, 0)

CELLS = [
    *(Cell("kill", f"kill@{r}:{at}", "lost_rank") for at in ("step", "join", "start", "first_step") for r in BOTH),
    *(Cell("kill", f"kill@{r}:after", None) for r in BOTH),
    *(Cell("freeze", f"freeze@{r}:{at}", _LATE[at], late=True) for at in ("step", *_LATE) for r in BOTH),
    *(Cell("never started", f"wait@{r}:start", "never_started", late=True) for r in BOTH),
    *(Cell("slow start", f"wait1s@{r}:start", None) for r in BOTH),
    *(Cell("slow start", f"wait1s@{r}:join", None) for r in BOTH),
    *(Cell("slow start", f"wait@{r}:join", "join_timeout", late=True) for r in BOTH),
    *(Cell("port taken", "good", None if held < 4 else "port_in_use", held_ports=held) for held in (4, 1, 3)),
    *(Cell("partner exits early", f"quit@{r}:{at}", "lost_rank") for at in ("step", "join", "start") for r in BOTH),
    *(Cell("partner exits early", f"leave@{r}:{at}", "error") for at in ("step", "join", "start") for r in BOTH),
]
CELLS = list(dict.fromkeys(CELLS))
ONE_OF_EACH_ROW = list({cell.row: cell for cell in reversed(CELLS)}.values())[::-1]


def endure(cell: Cell, launcher: Launcher, folder: Path) -> None:
    """Run the cell between two good cases, and assert what must be true of every fault."""
    good, bad, last = toy.numbered(["good", cell.preset, "good"])
    with _ports(cell.held_ports, after=1) as place:
        begun = time.monotonic()
        document = toy.sweep([good, bad, last], folder, launcher, MEASURE, place=place).run()
        seconds = time.monotonic() - begun
    assert {record.case_id for record in document.records} >= {good.id, last.id}, document.failed
    failed = [failure for failure in document.failed if failure.case_id == bad.id]
    assert [failure.classification for failure in document.failed] == ([cell.ends] if cell.ends else [])
    result: list[Record] = [record for record in document.records if record.case_id == bad.id]
    assert len(result) + len(failed) == 1 and not document.missing
    kept = (result or failed)[0].retries
    assert len(kept) == (0 if cell.held_ports else cell.launches - 1)
    if result and cell.held_ports:
        assert result[0].counts["port_retries"] == cell.held_ports
    assert seconds < 2 * SLACK_S + cell.launches * (2.0 * cell.late + SLACK_S)
    _assert_nothing_left(folder)


@contextmanager
def _ports(held: int, after: int) -> Iterator[Place]:
    """Places of which those after the first `after` name a port that is taken, `held` times."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        taken, asked = holder.getsockname()[1], iter(range(1 << 30))

        def choose(count: int) -> list[int]:
            free = free_ports(count)
            return [taken, *free[1:]] if after <= next(asked) < after + held else free

        yield Place([], 0, ports=choose)


def _assert_nothing_left(folder: Path) -> None:
    told = [json.loads(path.read_text()) for path in folder.rglob("launch.json")]
    assert told and not [pid for launch in told for pid in procfs.session_members(launch["pid"])]
    plans = [json.loads(path.read_text()) for path in folder.rglob("plan.json")]
    named = {address for plan in plans for addresses in plan["cluster"].values() for address in addresses}
    assert not [address for address in named if ports.is_listened_on(int(address.rpartition(":")[2]))]
