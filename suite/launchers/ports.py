"""Free ports on loopback for the servers of a launch."""

import random
import socket
from collections.abc import Iterable
from pathlib import Path

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST, _HIGHEST = 10_000, 65_535
_TRIES_A_PORT = 200


class NoPortError(OSError):
    """Every port that was tried is taken."""


def free_ports(count: int, taken: Iterable[int] = ()) -> list[int]:
    """`count` distinct ports that nothing on this host is bound to, none of them in `taken`.

    They lie below the range from which the kernel takes source ports of outgoing connections: one of that range may be
    gone by the time a rank binds it. Another process can still be faster; then the launch is retried with new ports.
    Raises NoPortError when none is found.
    """
    chooser = random.SystemRandom()
    highest = max(_ephemeral_low() - 1, _LOWEST + 1000)
    avoid, found = set(taken), list[int]()
    for _ in range(count * _TRIES_A_PORT):
        if len(found) == count:
            break
        port = chooser.randint(_LOWEST, highest)
        if port not in avoid and is_free(port):
            avoid.add(port)
            found.append(port)
    if len(found) < count:
        raise NoPortError(f"no {count} free ports between {_LOWEST} and {highest}")
    return found


def is_free(port: int) -> bool:
    """Whether a server could bind `port` on every IPv4 address of this host.

    Connections of a job that has ended hold its port for a minute (TIME_WAIT): it is not free, and not listened on.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
        return True


def is_listened_on(port: int) -> bool:
    """Whether some server accepts connections to `port` on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _ephemeral_low() -> int:
    try:
        return int(_EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _HIGHEST + 1
