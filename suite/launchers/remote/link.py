"""The harness's end of one agent: requests and answers, what its ranks write, its clock, and whether it is still there."""

import contextlib
import json
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from tfscale.suite.launchers.errors import LaunchError, PortTakenError
from tfscale.suite.timing.clock import ClockOffset, ping_pong_offset

PING_S = 2.0
"""Between two pings of an agent: they keep it alive, show that it is, and compare its clock with ours."""
SILENCE_S = 30.0
"""An agent that has not answered a ping for so long is lost, and its ranks with it."""
LEAVE_S = 10.0
"""How long an agent may take to end its ranks and itself."""
MOST_SAMPLES = 4096

Event = dict[str, Any]


@dataclass(frozen=True)
class Pong:
    """One ping: sent, answered and received. Local stamps are perf_counter and epoch nanoseconds, as the remote ones."""

    sent_ns: int
    received_ns: int
    remote_ns: int
    wall_ns: int
    """Epoch time here in the middle of the round trip."""
    remote_wall_ns: int


@dataclass(frozen=True)
class Channel:
    """A way to an agent: two streams, and what has to be ended with them."""

    receive: IO[bytes]
    send: IO[bytes]
    close: Callable[[float], None]
    """Hang up, and give the other end so many seconds to leave by itself."""
    last_words: Callable[[], str]
    """What it said beside the protocol."""


def opened(argv: Sequence[str]) -> Channel:
    """The agent at the other end of a process's pipes. Raises LaunchError where the process cannot be started."""
    log = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the channel)
    try:
        process = subprocess.Popen(
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
    except OSError as error:
        log.close()
        raise LaunchError(f"{argv[0]} cannot be started: {error.strerror or error}") from error
    assert process.stdin is not None and process.stdout is not None

    def close(patience_s: float) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError):  # what was not sent yet finds nobody
            process.stdin.close()
        for end in (None, process.terminate, process.kill):
            if end is not None:
                end()
            try:
                process.wait(patience_s)
                return
            except subprocess.TimeoutExpired:
                continue

    def last_words() -> str:
        log.seek(0)
        return log.read().decode(errors="replace").strip()[-2000:]

    return Channel(process.stdout, process.stdin, close, last_words)


class Link:
    """One agent. `name` is its host as the user knows it; `on_event` gets its events, in its thread and in order."""

    def __init__(
        self, name: str, channel: Channel, on_event: Callable[["Link", Event], None], silence_s: float
    ) -> None:
        self.name = name
        self._channel, self._on_event, self._silence_s = channel, on_event, silence_s
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._number = 0
        self._answers: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self._sent: dict[int, tuple[int, int]] = {}
        self._pongs: list[Pong] = []
        self._heard: float | None = None
        self._closed = threading.Event()
        self._lost: str | None = None
        for task in (self._listen, self._keep_alive):
            threading.Thread(target=task, daemon=True).start()

    @property
    def lost(self) -> str | None:
        """Why nothing can be asked of it any more; None while it is there. Silence counts from its first word on."""
        if self._lost is None and self._heard is not None and time.monotonic() - self._heard > self._silence_s:
            self._lose(f"nothing was heard of it for {self._silence_s:g} s")
        return self._lost

    def ask(self, do: str, timeout_s: float, **arguments: Any) -> dict[str, Any]:
        """Its answer to one request. Raises LaunchError, PortTakenError, or ValueError for what it refused otherwise."""
        return self.send(do, **arguments).result(timeout_s)

    def send(self, do: str, **arguments: Any) -> "Asked":
        """Ask without waiting: several hosts can work at once."""
        answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        with self._lock:
            self._number += 1
            number = self._number
            self._answers[number] = answers
        self._say({"id": number, "do": do, **arguments})
        return Asked(self, do, number, answers)

    def clock(self, since_ns: int = 0) -> tuple[ClockOffset, ClockOffset] | None:
        """How far its monotonic and its wall clock are ahead of ours, from pings since `since_ns` (perf_counter).

        A bound holds half the shortest round trip, and how far the offset moved between the two halves of the time:
        clocks of different machines drift. None before the first answer.
        """
        pongs = [pong for pong in list(self._pongs) if pong.sent_ns >= since_ns] or self._pongs[-1:]
        if not pongs:
            return None
        monotonic = _drifting([(p.sent_ns, p.remote_ns, p.received_ns) for p in pongs])
        half = [(p.received_ns - p.sent_ns) // 2 for p in pongs]
        wall = _drifting([(p.wall_ns - h, p.remote_wall_ns, p.wall_ns + h) for p, h in zip(pongs, half, strict=True)])
        return monotonic, wall

    def ping(self, times: int) -> None:
        """Compare clocks now, some more times; waits a second at most for the answers."""
        before = len(self._pongs)
        for _ in range(times):
            self._ping()
        deadline = time.monotonic() + 1.0
        while len(self._pongs) < before + times and time.monotonic() < deadline and self.lost is None:
            time.sleep(0.002)

    def close(self) -> None:
        """Hang up: the agent ends what it has started, and itself. One that is lost already is not waited for."""
        patience_s = 0.2 if self.lost is not None else LEAVE_S
        self._lose("it was closed")
        self._channel.close(patience_s)

    def _listen(self) -> None:
        try:
            for line in self._channel.receive:
                self._heard = time.monotonic()
                self._take(json.loads(line))
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._lose(f"{type(error).__name__}: {error}")
        else:
            self._lose("the connection ended")

    def _take(self, message: dict[str, Any]) -> None:
        if "pong" in message:
            received, wall = time.perf_counter_ns(), time.time_ns()
            sent = self._sent.pop(message["pong"], None)
            if sent is not None:
                middle = (sent[1] + wall) // 2
                self._pongs.append(Pong(sent[0], received, message["monotonic_ns"], middle, message["wall_ns"]))
                del self._pongs[:-MOST_SAMPLES]
        elif "event" in message:
            self._on_event(self, message)
        elif (answers := self._answers.pop(message["id"], None)) is not None:
            answers.put(message)

    def _keep_alive(self) -> None:
        while not self._closed.wait(PING_S):
            self._ping()

    def _ping(self) -> None:
        with self._lock:
            self._number += 1
            number = self._number
        self._sent[number] = (time.perf_counter_ns(), time.time_ns())
        self._say({"ping": number})

    def _say(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        try:
            with self._writing:  # may wait for ever for an agent that does not read; whoever asks has a deadline
                self._channel.send.write(data)
                self._channel.send.flush()
        except (OSError, ValueError) as error:
            self._lose(f"{type(error).__name__}: {error}")

    def _lose(self, reason: str) -> None:
        with self._lock:
            if self._lost is None:
                words = self._channel.last_words()
                self._lost = f"{reason}; it said: {words}" if words else reason
        self._closed.set()


@dataclass(frozen=True)
class Asked:
    """A request that is on its way."""

    link: Link
    do: str
    number: int
    answers: "queue.SimpleQueue[dict[str, Any]]" = field(repr=False)

    def result(self, timeout_s: float) -> dict[str, Any]:
        """The answer. Raises LaunchError where none comes in time, or the host says that ranks cannot be started."""
        message = self._message(timeout_s)
        if "answer" in message:
            answer: dict[str, Any] = message["answer"]
            return answer
        kind = {"launch": LaunchError, "port": PortTakenError}.get(message["kind"], ValueError)
        raise kind(f"host {self.link.name}: {message['error']}")

    def _message(self, timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self.answers.get(timeout=0.2)
            except queue.Empty:
                if self.link.lost is not None and self.answers.empty():
                    raise LaunchError(f"host {self.link.name} is lost: {self.link.lost}") from None
                if time.monotonic() > deadline:
                    limit = f"within {timeout_s:g} s"
                    raise LaunchError(f"host {self.link.name} did not answer {self.do!r} {limit}") from None


def _drifting(samples: Sequence[tuple[int, int, int]]) -> ClockOffset:
    """The offset over all samples; what it moved by between their two halves is added to its bound."""
    whole = ping_pong_offset(samples)
    if len(samples) < 2:
        return whole
    middle = len(samples) // 2
    moved = abs(ping_pong_offset(samples[middle:]).offset_ns - ping_pong_offset(samples[:middle]).offset_ns)
    return ClockOffset(whole.offset_ns, whole.bound_ns + moved)
