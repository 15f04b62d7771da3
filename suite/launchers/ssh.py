"""Hosts reached by OpenSSH: an agent at the other end of each connection, which ends when the connection does."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tfscale.suite.cluster import SAFE_WORD, HostEntry
from tfscale.suite.launchers.errors import LaunchError
from tfscale.suite.launchers.remote.launcher import RemoteLauncher
from tfscale.suite.launchers.remote.link import Channel, opened

OPTIONS = ("-o", "BatchMode=yes", "-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3", "-T")
"""Never ask anybody, notice a dead connection, no terminal."""


class SshLauncher(RemoteLauncher):
    """One ssh a host. What ranks are given travels through it as data, never on a command line."""

    name: ClassVar[str] = "ssh"

    def entries(self) -> list[HostEntry]:
        found = list(self.cluster.hosts) or hosts_of_file(self.cluster.hosts_file)
        if not found:
            raise LaunchError("launcher ssh has no hosts: name them in cluster.hosts, cluster.hosts_file or --hosts")
        return found

    def open(self, entries: Sequence[HostEntry]) -> list[Channel]:
        return [opened(self.argv(entry)) for entry in entries]

    def argv(self, entry: HostEntry) -> list[str]:
        """The ssh command to the agent of a host. Raises LaunchError for a word that a remote shell would read.

        sshd hands the command to the login shell of the user, so only words pass in which no shell finds anything.
        """
        words = self.agent_argv()
        for word in words:
            if not SAFE_WORD.match(word):
                raise LaunchError(
                    f"ssh: {word!r} of cluster.prefix or cluster.python would be read by a shell on {entry.target}; "
                    "allowed are letters, digits and _./:=@%+,-"
                )
        timeout = max(1, round(self.cluster.connect_s))
        options = [*OPTIONS, "-o", f"ConnectTimeout={timeout}", *self.cluster.ssh_options]
        return ["ssh", *options, "--", entry.target, *words]


def hosts_of_file(path: str | None) -> list[HostEntry]:
    """The hosts of a file, one a line: `target` or `target address`. Raises LaunchError naming file and line."""
    if path is None:
        return []
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"cluster.hosts_file {path}: {error}") from error
    hosts: list[HostEntry] = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            if len(words) > 2:
                raise ValueError(f"{len(words)} words; `target` or `target address` is wanted")
            hosts.append(HostEntry(target=words[0], address=words[1] if len(words) == 2 else None))
        except ValueError as error:
            raise LaunchError(f"{path}:{number}: {error}") from error
    if len({host.target for host in hosts}) < len(hosts):
        raise LaunchError(f"{path}: a host is named twice")
    return hosts
