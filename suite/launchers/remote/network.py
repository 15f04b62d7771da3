"""What a host knows of its network, and whether its peers can be reached: asked before TensorFlow's runtime is.

TensorFlow waits for ever for a peer that it cannot reach, and says nothing. Sockets here listen only on the addresses
that the ranks are planned on, and for no longer than the question takes.
"""

import ipaddress
import socket
import struct
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

Endpoint = tuple[str, int]
CONNECT_S = 5.0
_AT_ONCE = 64
_DISCARD = struct.pack("ii", 1, 0)
"""Linger for 0 s: a connection ends by reset and leaves its port free at once, not after a minute (TIME_WAIT)."""


def addresses() -> dict[str, list[str]]:
    """Interface -> its IPv4 and IPv6 addresses, without those that only hold on one link."""
    import psutil

    found: dict[str, list[str]] = {}
    for name, entries in psutil.net_if_addrs().items():
        for entry in entries:
            if entry.family in (socket.AF_INET, socket.AF_INET6):
                address = entry.address.partition("%")[0]
                if not ipaddress.ip_address(address).is_link_local:
                    found.setdefault(name, []).append(address)
    return found


def identity() -> dict[str, str]:
    """What tells whether two hosts are one machine (the kernel's boot) and one network (the namespace)."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"boot": boot, "network": f"{boot}/{Path('/proc/self/ns/net').readlink()}"}


def chosen(network: str, interfaces: dict[str, list[str]]) -> str:
    """The address on `network`, an interface's name or a network such as 10.1.0.0/16.

    Raises ValueError where there is none, naming what there is.
    """
    if network in interfaces:
        return _best(interfaces[network])
    try:
        wanted = ipaddress.ip_network(network, strict=False)
    except ValueError:
        wanted = None
    inside = [a for each in interfaces.values() for a in each if wanted and ipaddress.ip_address(a) in wanted]
    if not inside:
        there = ", ".join(f"{name} ({', '.join(each)})" for name, each in interfaces.items())
        raise ValueError(f"cluster.network {network!r} is no interface and holds no address here; there are {there}")
    return inside[0]


def default_address() -> str | None:
    """The address from which this host reaches others by its default route; None without one. Nothing is sent."""
    for family, target in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((target, 9))
            except OSError:
                continue
            return str(probe.getsockname()[0])
    return None


def is_loopback(address: str) -> bool:
    """Whether an address or name means the host itself, wherever it is used."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost" or address.startswith("localhost.")


def _best(found: Sequence[str]) -> str:
    """IPv4 before IPv6: TensorFlow's servers are known to listen on both."""
    return next((address for address in found if ":" not in address), found[0])


class Listeners:
    """Servers on `endpoints` that accept and hang up. Raises OSError, naming the endpoint, where one is taken."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._stack = ExitStack()
        with ExitStack() as opened:
            servers = [opened.enter_context(_listening(endpoint)) for endpoint in endpoints]
            self._stack = opened.pop_all()
        for server in servers:
            threading.Thread(target=_accept, args=(server,), daemon=True).start()
        self._servers = servers

    def close(self) -> None:
        for server in self._servers:
            server.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._stack.close()


def _listening(endpoint: Endpoint) -> socket.socket:
    family = socket.AF_INET6 if ":" in endpoint[0] else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    try:
        server.bind(endpoint)
        server.listen(1024)
    except OSError as error:
        server.close()
        raise OSError(error.errno, f"{endpoint[0]} port {endpoint[1]}: {error.strerror}") from error
    return server


def _accept(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:  # closed: the question is answered
            return
        with connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARD)


def unreachable(endpoints: Sequence[Endpoint], timeout_s: float = CONNECT_S) -> list[tuple[Endpoint, str]]:
    """Those of `endpoints` that no connection could be made to from here, each with the reason."""
    with ThreadPoolExecutor(min(_AT_ONCE, len(endpoints) or 1)) as pool:
        reasons = pool.map(lambda endpoint: _refusal(endpoint, timeout_s), endpoints)
        return [(endpoint, reason) for endpoint, reason in zip(endpoints, reasons, strict=True) if reason]


def _refusal(endpoint: Endpoint, timeout_s: float) -> str | None:
    try:
        with socket.create_connection(endpoint, timeout=timeout_s) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARD)
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except ConnectionResetError:  # only a connection that was made can be reset: the listener hangs up at once
        return None
    except OSError as error:
        return error.strerror or str(error)
    return None
