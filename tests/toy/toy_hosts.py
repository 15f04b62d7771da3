"""Hosts that are processes of this machine: agents at the other end of pipes, without ssh or a scheduler between."""

import sys
import time
from collections.abc import Sequence

from tfscale.suite.cluster import Cluster, HostEntry
from tfscale.suite.launchers import procfs
from tfscale.suite.launchers.remote.launcher import RemoteLauncher
from tfscale.suite.launchers.remote.link import Channel, opened

AGENT = (sys.executable, "-m", "tfscale.suite.launchers.agent")


class PipeLauncher(RemoteLauncher):
    """Two hosts by default; `before` are words before the agent's command, host by host."""

    name = "pipes"
    hosts_there = 2
    before: Sequence[Sequence[str]] = ()

    def entries(self) -> list[HostEntry]:
        return [HostEntry(target=f"host{number}") for number in range(self.hosts_there)]

    def open(self, entries: Sequence[HostEntry]) -> list[Channel]:
        numbers = [int(entry.target.removeprefix("host")) for entry in entries]
        return [opened([*(self.before[n] if self.before else ()), *AGENT]) for n in numbers]


def launcher(worker: str | None = "toy_worker", silence_s: float = 30.0, **cluster: object) -> PipeLauncher:
    return PipeLauncher(Cluster.model_validate(cluster), worker=worker, silence_s=silence_s)


def agents() -> set[int]:
    """Living agents of this machine, whoever started them."""
    found = set()
    for entry in procfs.PROC.iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:  # it ended meanwhile
            continue
        if words[1:3] == [b"-m", b"tfscale.suite.launchers.agent"]:
            found.add(int(entry.name))
    return found


def assert_gone(pids: set[int], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while pids & agents() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not pids & agents()
