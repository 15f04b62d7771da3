"""The harness's end of a warm parent: starts it, sends it fork requests, and keeps what it answers."""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, BinaryIO

from tfscale.suite.launchers.environment import base_environment
from tfscale.suite.launchers.errors import LaunchError

SERVER = "tfscale.suite.launchers.forkserver"
LOST = -9
"""Exit code of ranks whose parent died: the kernel ends them with SIGKILL."""


class WarmParent:
    """One fork server. `exits` maps process ids to exit codes as they arrive; `import_s` is what its imports took."""

    def __init__(self, worker: str, modules: Sequence[str]) -> None:
        self._log: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        arguments = [sys.executable, "-m", SERVER, "--worker", worker, "--harness", str(os.getpid()), *modules]
        self.environment = base_environment(os.environ)
        started = time.perf_counter()
        self._process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=self.environment,
            start_new_session=True,  # Ctrl-C in a terminal is the harness's to handle
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._started = started
        self._buffer = b""
        self._ready = False
        self._answers: list[dict[str, Any]] = []
        self.exits: dict[int, int] = {}
        self.import_s: float | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until its imports are done. Raises LaunchError when they fail or take more than `timeout_s` seconds."""
        self._wait(lambda: self._ready, timeout_s, "import TensorFlow")
        if self.import_s is None:
            self.import_s = time.perf_counter() - self._started

    def fork(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Have one rank started; the answer holds `pid`, `start` and `reason`. Raises LaunchError."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise LaunchError(f"the parent of the ranks has died\n{self.log()}") from None
        self._wait(lambda: bool(self._answers), timeout_s, "fork a rank")
        answer = self._answers.pop(0)
        if answer["event"] == "failed":
            raise LaunchError(f"rank {answer['rank']} could not be started:\n{answer['detail']}")
        return answer

    def poll(self) -> None:
        """Take in what it has said since the last look."""
        assert self._process.stdout is not None
        while data := self._process.stdout.read(1 << 16):
            self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            message = json.loads(line)
            if message["event"] == "ready":
                self._ready = True
            elif message["event"] == "exit":
                self.exits[message["pid"]] = message["code"]
            else:
                self._answers.append(message)

    def close(self) -> None:
        """End it and whatever ranks it still has. Raises subprocess.TimeoutExpired when it cannot be ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._process.stdout.close()
        self._log.close()

    def log(self) -> str:
        """The end of what it wrote to standard error."""
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - 4000))
        return self._log.read().decode(errors="replace")

    def _wait(self, condition: Any, timeout_s: float, what: str) -> None:
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout_s
        while True:
            self.poll()
            if condition():
                return
            if not self.alive:
                raise LaunchError(f"the parent of the ranks ended while it should {what}\n{self.log()}")
            if time.monotonic() > deadline:
                raise LaunchError(f"the parent of the ranks did not {what} within {timeout_s:.0f} s\n{self.log()}")
            select.select([self._process.stdout], [], [], 0.2)
