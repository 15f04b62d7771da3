"""The agent of a host: starts, watches and ends ranks there, for a harness that is somewhere else.

    python -m tfscale.suite.launchers.agent                                      on its standard input and output
    python -m tfscale.suite.launchers.agent --connect HOST:PORT --token-file F   over a connection that it makes

One JSON document a line. What it is asked, and what it says:

    {"id": n, "do": name, ...}   ->   {"id": n, "answer": {...}} | {"id": n, "error": text, "kind": "launch"|"value"|"port"}
    {"ping": n}                  ->   {"pong": n, "monotonic_ns", "wall_ns"}       at once, whatever else it is doing
    {"event": "file", "job", "rank", "path", "offset", "data", "last"}            what ranks write, where no disk is shared
    {"event": "exit", "job", "rank", "code", "oom_kills"}                         after all that the rank has written

It lives no longer than its input, or than the harness is silent: then it ends its ranks and itself. TensorFlow's
processes do not end on SIGTERM, nor when their peers are gone, so that somebody on the host has to see to it.
"""

import argparse
import json
import os
import queue
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

from tfscale.suite.launchers.errors import LaunchError, PortTakenError
from tfscale.suite.launchers.ports import NoPortError
from tfscale.suite.launchers.remote.hosted import Hosted

TICK_S = 0.05
SILENCE_S = 60.0
"""How long the harness may be silent. It says something every few seconds."""
END_S = 25.0
"""How long the ranks may take to end when the agent has to."""
RETRY_S = 1.0


class Agent:
    """Serves one harness until it is gone."""

    def __init__(self, receive: BinaryIO, send: BinaryIO) -> None:
        self._receive, self._send = receive, send
        self._lock = threading.Lock()
        self._requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._heard = time.monotonic()
        self._silence_s = SILENCE_S
        self.ended = threading.Event()
        self._hosted = Hosted(self._say)

    def serve(self) -> None:
        """Returns when the harness is gone or silent, with nothing left running."""
        for task in (self._listen, self._listen_for_silence):
            threading.Thread(target=task, daemon=True).start()
        try:
            while not self.ended.is_set():
                self._work()
                self._hosted.report()
        finally:
            self.ended.set()
            self._hosted.close()

    def _listen(self) -> None:
        """Takes in what the harness says. Pings are answered here: they measure clocks, and must not wait."""
        for line in self._receive:
            self._heard = time.monotonic()
            try:
                message = json.loads(line)
                if "ping" in message:
                    stamps = {"monotonic_ns": time.perf_counter_ns(), "wall_ns": time.time_ns()}
                    self._say({"pong": message["ping"], **stamps})
                else:
                    self._requests.put(message)
            except (ValueError, TypeError):
                print(f"not a request: {line[:200]!r}", file=sys.stderr)
        self.ended.set()

    def _listen_for_silence(self) -> None:
        """Ends the service when nothing is heard, and the process where that takes too long: the thread that serves may
        be within a long start, or in a write that nobody reads. The kernel then ends the ranks with the process."""
        while not self.ended.wait(1.0):
            if time.monotonic() - self._heard > self._silence_s:
                self.ended.set()
        time.sleep(END_S)
        os._exit(1)

    def _work(self) -> None:
        try:
            request = self._requests.get(timeout=TICK_S)
        except queue.Empty:
            return
        self._silence_s = float(request.get("silence_s", self._silence_s))
        self._say({"id": request.get("id"), **self._answer(request)})

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"answer": self._hosted.do(request)}
        except PortTakenError as error:
            return {"error": str(error), "kind": "port"}
        except (LaunchError, NoPortError) as error:
            return {"error": str(error), "kind": "launch"}
        except Exception as error:  # the harness decides what becomes of it; the agent and its other ranks live on
            return {"error": f"{type(error).__name__}: {error}", "kind": "value"}

    def _say(self, message: dict[str, Any]) -> None:
        with self._lock:
            try:
                self._send.write(json.dumps(message).encode() + b"\n")
                self._send.flush()
            except (OSError, ValueError):  # nobody is there to hear it; the input has ended, or will by the silence
                self.ended.set()


def _streams() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output for the protocol alone: whatever prints goes to standard error."""
    receive, send = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return receive, send


def connected(endpoint: str, token: str, index: int, patience_s: float) -> tuple[BinaryIO, BinaryIO]:
    """A connection to the harness, tried until it is there: its name may not resolve yet, nor its port listen."""
    host, _, port = endpoint.rpartition(":")
    deadline = time.monotonic() + patience_s
    while True:
        try:
            connection = socket.create_connection((host.strip("[]"), int(port)), timeout=10.0)
            break
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"the harness at {endpoint} was not reached within {patience_s:g} s: {error}")
            time.sleep(RETRY_S)
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(json.dumps({"token": token, "index": index}).encode() + b"\n")
    return connection.makefile("rb"), connection.makefile("wb")


INDEX = ("TFSCALE_HOST_INDEX", "JOB_COMPLETION_INDEX", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
"""Variables that number the processes of one start, the first that is set counts: ours, Kubernetes', MPI's, Slurm's."""


def own_index() -> int:
    """Which host of the harness this is."""
    told = next((os.environ[name] for name in INDEX if os.environ.get(name)), None)
    if told is None or not told.isdecimal():
        sys.exit(f"--connect: no host number ({told!r}); one of {', '.join(INDEX)} gives it, or --index")
    return int(told)


def main() -> None:
    parser = argparse.ArgumentParser(description="Starts ranks on this host for a harness elsewhere.")
    parser.add_argument("--connect", help="HOST:PORT where the harness listens; default: standard input and output")
    parser.add_argument("--token-file", type=Path, help="file with the token that the harness expects")
    parser.add_argument("--index", type=int, help=f"number of this host; default: from {', '.join(INDEX)}")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds to try the connection for")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if options.connect is None:
        streams = _streams()
    else:
        token = options.token_file.read_text().strip() if options.token_file else os.environ.pop(TOKEN, "")
        index = options.index if options.index is not None else own_index()
        streams = connected(options.connect, token, index, options.patience)
    agent = Agent(*streams)
    signal.signal(signal.SIGTERM, lambda *_: agent.ended.set())
    agent.serve()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the reading thread may hold the input's lock for ever


TOKEN = "TFSCALE_AGENT_TOKEN"
"""Variable that carries the token where no file does; it is taken out of the environment at once."""

if __name__ == "__main__":
    main()
