"""Where agents call in that were started by somebody else, an MPI or a cluster manager: one connection a host.

It listens on one address of the hosts' network. Whoever calls shows the run's token first; all others are hung up on.
"""

import hmac
import json
import queue
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import IO, Any

from tfscale.suite.launchers.errors import LaunchError
from tfscale.suite.launchers.remote.link import Channel

GREETING_S = 10.0
"""How long a caller may take to say who it is."""
_LONGEST = 4096


class Reception:
    """Takes calls until it is closed. `token` is what callers have to show; made up where none is given."""

    def __init__(self, address: str, port: int = 0, token: str | None = None) -> None:
        """Raises LaunchError where the address or port cannot be listened on."""
        self.token = token or secrets.token_hex(32)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._server = socket.socket(family, socket.SOCK_STREAM)
        self._server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._server.bind((address, port))
            self._server.listen(1024)
        except OSError as error:
            self._server.close()
            raise LaunchError(f"no agents can call {address} port {port}: {error.strerror or error}") from error
        self.port = int(self._server.getsockname()[1])
        self._callers: queue.SimpleQueue[tuple[int, socket.socket, IO[bytes]]] = queue.SimpleQueue()
        threading.Thread(target=self._accept, daemon=True).start()

    def await_callers(
        self, numbers: set[int], timeout_s: float, given_up: Callable[[], str | None]
    ) -> dict[int, tuple[socket.socket, IO[bytes]]]:
        """Number of a host -> its connection, once all of `numbers` have called.

        Raises LaunchError naming those that did not come in time, or the reason of `given_up()`.
        """
        deadline = time.monotonic() + timeout_s
        found: dict[int, tuple[socket.socket, IO[bytes]]] = {}
        while missing := numbers - found.keys():
            try:
                number, connection, stream = self._callers.get(timeout=0.2)
                if number in missing:
                    found[number] = (connection, stream)
                else:
                    connection.close()  # called twice, or is none of ours
                continue
            except queue.Empty:
                reason = given_up()
            if reason is not None or time.monotonic() > deadline:
                for connection, _ in found.values():
                    connection.close()
                hosts = ", ".join(map(str, sorted(missing)[:8]))
                why = reason or f"they did not call within {timeout_s:g} s"
                raise LaunchError(
                    f"no agent of host number {hosts} ({len(missing)} of {len(numbers)} are missing): {why}"
                )
        return found

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                select.select([self._server], [], [])
                connection, _ = self._server.accept()
            except (OSError, ValueError):  # closed
                return
            threading.Thread(target=self._greet, args=(connection,), daemon=True).start()

    def _greet(self, connection: socket.socket) -> None:
        """Hear who calls. A caller that does not show the token learns nothing."""
        try:
            connection.settimeout(GREETING_S)
            stream = connection.makefile("rb")
            told: Any = json.loads(stream.readline(_LONGEST))
            if not hmac.compare_digest(str(told["token"]).encode(), self.token.encode()):
                raise ValueError("another token")
            number = int(told["index"])
        except (OSError, ValueError, KeyError, TypeError):
            connection.close()
            return
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._callers.put((number, connection, stream))


def channel(connection: socket.socket, stream: IO[bytes], last_words: Callable[[], str] = lambda: "") -> Channel:
    """The channel over a connection that was greeted."""

    def close(patience_s: float) -> None:
        try:
            connection.shutdown(socket.SHUT_WR)  # the agent hears the end, and hangs up when its ranks are gone
            connection.settimeout(patience_s)
            while connection.recv(1 << 16):
                pass
        except OSError:  # it has gone already, or takes longer than it may
            pass
        finally:
            connection.close()

    return Channel(stream, connection.makefile("wb"), close, last_words)
