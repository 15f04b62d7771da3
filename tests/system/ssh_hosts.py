"""Two hosts with real sshd's: network namespaces on a bridge, with keys and configuration of their own.

Not a test module. Nothing of the machine's own ssh is used or touched.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tfscale.suite.netlab import namespaces

SUBNET = "10.231.{third}"
START_S = 10.0

SERVER = """
Port 22
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile {folder}/sshd{number}.pid
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
"""
CLIENT = """
Host node1 node2
  User root
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking yes
Host node1
  HostName {addresses[0]}
Host node2
  HostName {addresses[1]}
"""


def missing() -> str | None:
    """Why there can be no such hosts here, or None."""
    absent = [name for name in ("sshd", "ssh", "ssh-keygen", "ip") if shutil.which(name, path=PATH) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (Debian: openssh-server, iproute2)"
    return namespaces.refusal()


PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Hosts:
    """`config` is the client's; the names are node1 and node2."""

    folder: Path
    config: Path
    addresses: tuple[str, str]
    cables: tuple[str, str]
    spaces: tuple[str, str]

    def cut(self, number: int) -> None:
        """Unplug node `number` (1 or 2): nothing answers any more, and nothing says so."""
        _run("ip", "link", "set", self.cables[number - 1], "down")

    def block(self, one: int, other: int) -> None:
        """Let node `one` send nothing to node `other`, as a firewall would."""
        _run("ip", "-n", self.spaces[one - 1], "route", "add", "blackhole", f"{self.addresses[other - 1]}/32")

    def unblock(self, one: int, other: int) -> None:
        _run("ip", "-n", self.spaces[one - 1], "route", "delete", "blackhole", f"{self.addresses[other - 1]}/32")

    def plug(self, number: int) -> None:
        _run("ip", "link", "set", self.cables[number - 1], "up")


@contextmanager
def hosts(folder: Path) -> Iterator[Hosts]:
    """The two hosts, until the context is left."""
    folder.mkdir(mode=0o700)
    third = os.getpid() % 250
    subnet, tag = SUBNET.format(third=third), f"tfs{os.getpid() % 100000}"
    addresses = (f"{subnet}.2", f"{subnet}.3")
    found = Hosts(folder, folder / "config", addresses, (f"{tag}c1", f"{tag}c2"), (f"{tag}n1", f"{tag}n2"))
    _keys(folder, addresses)
    found.config.write_text(CLIENT.format(folder=folder, addresses=addresses))
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with ExitStack() as stack:
        bridge = f"{tag}br"
        _run("ip", "link", "add", bridge, "type", "bridge")
        stack.callback(_run, "ip", "link", "delete", bridge)
        _run("ip", "address", "add", f"{subnet}.1/24", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
        for number, (address, cable, space) in enumerate(zip(addresses, found.cables, found.spaces, strict=True), 1):
            _run("ip", "netns", "add", space)
            stack.callback(_run, "ip", "netns", "delete", space)
            _run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
            _run("ip", "link", "set", cable, "master", bridge, "up")
            for command in (
                ("address", "add", f"{address}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
                ("link", "set", "lo", "up"),
                ("route", "add", "default", "via", f"{subnet}.1"),
            ):
                _run("ip", "-n", space, *command)
            stack.enter_context(_server(folder, number, space, address))
        yield found


@contextmanager
def _server(folder: Path, number: int, space: str, address: str) -> Iterator[None]:
    configuration = folder / f"sshd{number}.conf"
    configuration.write_text(SERVER.format(folder=folder, number=number, address=address))
    log = folder / f"sshd{number}.log"
    sshd = shutil.which("sshd", path=PATH)
    command = ["ip", "netns", "exec", space, str(sshd), "-D", "-e", "-f", str(configuration)]
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + START_S
        while "listening" not in log.read_text():
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield
    finally:
        server.terminate()
        server.wait(10)


def _keys(folder: Path, addresses: tuple[str, str]) -> None:
    for name in ("host_key", "user_key"):
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
    key = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text("".join(f"{address} {key}" for address in addresses))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=20, env={**os.environ, "PATH": PATH})
