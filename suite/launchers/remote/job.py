"""The ranks of one launch over several hosts, as their agents tell of them."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfscale.suite import events
from tfscale.suite.hostclocks import HostClocks, write_clocks
from tfscale.suite.launchers.base import Job
from tfscale.suite.launchers.errors import LaunchError
from tfscale.suite.launchers.parent import LOST
from tfscale.suite.launchers.remote.link import Event, Link
from tfscale.suite.launchers.remote.streaming import Copy, Piece
from tfscale.suite.plan import RankPlan
from tfscale.suite.timing.clock import ClockOffset

LOOK_S = 5.0
"""How long an agent may take to show a rank's state or stacks."""
END_S = 25.0


@dataclass
class Placed:
    """One rank: its plan, its host's agent, and what is known of its end."""

    plan: RankPlan
    link: Link
    same_machine: bool
    """Whether its host is the harness's machine, whose clocks are ours."""
    code: int | None = None
    copy: Copy = field(init=False)

    def __post_init__(self) -> None:
        self.copy = Copy(Path(self.plan.directory))


class RemoteJob(Job):
    """Ranks by number, each on the host of its link."""

    def __init__(self, number: int, ranks: Sequence[Placed]) -> None:
        self.number, self._ranks = number, list(ranks)
        self._links = list(dict.fromkeys(rank.link for rank in ranks))
        self._begun_ns = time.perf_counter_ns()
        self._oom: dict[Link, int] = {}
        self._unwritten: str | None = None
        self._told_lost: set[int] = set()
        self._lock = threading.Lock()

    def take(self, link: Link, event: Event) -> None:
        """An event of one of the job's agents; called in the link's thread."""
        rank = next((r for r in self._ranks if r.plan.rank == event["rank"] and r.link is link), None)
        if rank is None:
            return
        if event["event"] == "file":
            self._keep(rank, event)
        elif event["event"] == "exit":
            self._oom[link] = max(self._oom.get(link, 0), int(event["oom_kills"]))
            with self._lock:
                rank.code = int(event["code"])

    def begun(self, link: Link, oom_kills: int) -> None:
        """A host has started its ranks; what its kernel had killed for memory until then."""
        self._oom[link] = oom_kills

    @property
    def over(self) -> bool:
        """Whether every rank has ended."""
        return all(rank.code is not None for rank in self._ranks)

    def exit_codes(self) -> list[int | None]:
        """Raises OSError where what ranks have sent cannot be written here: the disk of the results is full or gone."""
        if self._unwritten is not None:
            raise OSError(self._unwritten)
        for rank in self._ranks:
            if rank.code is None and (reason := rank.link.lost) is not None:
                self._lose(rank, reason)
        return [rank.code for rank in self._ranks]

    def state(self, rank: int) -> str | None:
        """State letter of the rank's process (T: stopped), or None when it is gone or cannot be asked for."""
        found = self._look("state", rank).get("state")
        return str(found) if found else None

    def stacks(self, rank: int) -> str | None:
        found = self._look("stacks", rank).get("stacks")
        return str(found) if found else None

    def oom_kills(self) -> int:
        return sum(self._oom.values())

    def end(self, grace_s: float = 2.0) -> None:
        """End the ranks on all hosts. Of a host that does not answer, its own agent ends them."""
        with ThreadPoolExecutor(max(1, min(64, len(self._links)))) as pool:
            list(pool.map(lambda link: self._end_on(link, grace_s), self._links))
        self._tell_clocks()

    def _end_on(self, link: Link, grace_s: float) -> None:
        if link.lost is not None:
            return
        try:
            link.ping(8)
            link.ask("end", grace_s + END_S, job=self.number, grace_s=grace_s)
        except LaunchError:
            link.close()  # it ends its ranks when it hears no more of us

    def _tell_clocks(self) -> None:
        for rank in self._ranks:
            offsets = (
                (ClockOffset(0.0, 0.0), ClockOffset(0.0, 0.0)) if rank.same_machine else rank.link.clock(self._begun_ns)
            )
            folder = Path(rank.plan.directory)
            if offsets is None or not folder.is_dir():
                continue
            monotonic, wall = offsets
            write_clocks(folder, HostClocks(monotonic, wall))

    def _look(self, what: str, rank: int) -> dict[str, Any]:
        placed = self._ranks[rank]
        if placed.link.lost is not None or placed.code is not None:
            return {}
        try:
            return placed.link.ask(what, LOOK_S, job=self.number, rank=placed.plan.rank)
        except (LaunchError, ValueError):  # what cannot be seen is not shown; the failure itself is told elsewhere
            return {}

    def _keep(self, rank: Placed, event: Event) -> None:
        try:
            rank.copy.take(Piece.of(event))
        except OSError as error:
            self._unwritten = f"{rank.plan.directory}: what rank {rank.plan.rank} sent cannot be written: {error}"

    def _lose(self, rank: Placed, reason: str) -> None:
        """A rank whose host is lost: its own files say so, as they would if it had lived to tell."""
        with self._lock:
            if rank.code is not None:
                return
            rank.code = LOST
        log = events.EventLog(Path(rank.plan.directory))
        log.error("lost_rank", f"host {rank.link.name} is lost: {reason}")
