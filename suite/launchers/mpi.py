"""Hosts reached by whatever starts MPI programs on a site: one agent a host, which calls back.

The site's command decides where processes go and numbers them; each agent reads its number from the variables that MPI
sets (agent.INDEX), and the plan, TF_CONFIG included, is made from these numbers.
"""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from tfscale.suite.cluster import Cluster, HostEntry
from tfscale.suite.launchers.agent import TOKEN
from tfscale.suite.launchers.errors import LaunchError
from tfscale.suite.launchers.remote import network
from tfscale.suite.launchers.remote.launcher import RemoteLauncher
from tfscale.suite.launchers.remote.link import Channel
from tfscale.suite.launchers.remote.reception import Reception, channel
from tfscale.suite.planner import endpoint

MOST_HOSTS = 4096
OPTIONS: dict[str, tuple[str, ...]] = {
    "mpirun": ("--map-by", "ppr:1:node", "--bind-to", "none", "-x", TOKEN),
    "mpiexec": ("--map-by", "ppr:1:node", "--bind-to", "none", "-x", TOKEN),
    "srun": ("--ntasks-per-node=1", "--cpu-bind=none", "--overlap"),
}
"""Options of Open MPI's and Slurm's commands: a process a host, not pinned (its ranks are), with the token passed on."""


class MpiLauncher(RemoteLauncher):
    """One start of the site's command for all hosts."""

    name: ClassVar[str] = "mpi"

    def __init__(self, cluster: Cluster, **options: Any) -> None:
        super().__init__(cluster, **options)
        self._starts: list[subprocess.Popen[bytes]] = []

    def entries(self) -> list[HostEntry]:
        """Hosts by their MPI number: what they are called is known when they have answered."""
        return [HostEntry(target=f"mpi{number}") for number in range(MOST_HOSTS)]

    def reopened(self, lost: Sequence[int]) -> Sequence[int]:
        return range(len(self._hosts))  # one start holds them all

    def open(self, entries: Sequence[HostEntry]) -> list[Channel]:
        numbers = [int(entry.target.removeprefix("mpi")) for entry in entries]
        self._end_starts()
        address = own_address(self.cluster)
        reception = Reception(address)
        log = tempfile.TemporaryFile()  # noqa: SIM115 (read as long as a channel may have last words)
        try:
            argv = self.argv(len(entries), endpoint(address, reception.port))
            started = _start(argv, {**os.environ, TOKEN: reception.token}, log)
            self._starts.append(started)

            def last_words() -> str:
                log.seek(0)
                return log.read().decode(errors="replace").strip()[-2000:]

            def given_up() -> str | None:
                code = started.poll()
                return None if code is None else f"{argv[0]} ended with code {code}: {last_words()}"

            callers = reception.await_callers(set(range(len(numbers))), self.cluster.connect_s, given_up)
        except BaseException:
            self._end_starts()
            raise
        finally:
            reception.close()
        return [channel(*callers[place], last_words) for place in range(len(numbers))]

    def argv(self, hosts: int, harness: str) -> list[str]:
        """The command that starts `hosts` agents which call `harness` (address:port)."""
        command = list(self.cluster.mpi.command)
        options = self.cluster.mpi.options or OPTIONS.get(Path(command[0]).name, ())
        return [*command, "-n", str(hosts), *options, *self.agent_argv(), "--connect", harness]

    def close(self) -> None:
        super().close()
        self._end_starts()

    def _end_starts(self) -> None:
        """The agents have been told to leave, and the command ends with them."""
        for started in self._starts:
            for end in (None, started.terminate, started.kill):
                if end is not None:
                    end()
                try:
                    started.wait(10)
                    break
                except subprocess.TimeoutExpired:
                    continue
        self._starts.clear()


def _start(argv: Sequence[str], environment: dict[str, str], log: Any) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
        )
    except OSError as error:
        raise LaunchError(f"{argv[0]} cannot be started: {error.strerror or error}") from error


def own_address(cluster: Cluster) -> str:
    """The address of this machine that the hosts can call. Raises LaunchError where `cluster.network` is not here."""
    if cluster.network is None:
        return network.default_address() or "127.0.0.1"
    try:
        return network.chosen(cluster.network, network.addresses())
    except ValueError as error:
        raise LaunchError(f"the harness's machine: {error}") from error
