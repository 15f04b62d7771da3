"""The warm parent: imports what ranks import, never touches TensorFlow's runtime or a device, and forks ranks.

Run as `python -m tfscale.suite.launchers.forkserver`. Requests come as JSON lines on standard input, answers leave on
standard output. It ends, and its ranks with it, when its input closes: so nothing outlives a harness that was killed.

    request  {"job", "rank", "plan", "fresh", "modules"}    modules: imported before the fork, once;
             "worker": a module to run in place of the server's own, optional
    answer   {"event": "ready"} | {"event": "forked", "job", "rank", "pid", "start", "reason"}
             | {"event": "exit", "pid", "code"} | {"event": "failed", "job", "rank", "detail"}
"""

import argparse
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from typing import Any

from tfscale.suite.launchers import child, procfs
from tfscale.suite.plan import RankPlan


class ForkServer:
    """Serves until its input closes. `unclean` says why it may not fork any more; ranks then get fresh interpreters."""

    def __init__(self, worker: str, requests: int, answers: int) -> None:
        self._worker = worker
        self._requests, self._answers = requests, answers
        self._buffer = b""
        self._running: set[int] = set()
        self._threads = len(procfs.thread_names())
        # A child that ends interrupts the wait below, at no cost while nothing happens.
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            self._inherited = [self._requests, self._answers, self._woken.fileno(), self._waker.fileno()]
            self._inherited += [selector.fileno()] if hasattr(selector, "fileno") else []
            selector.register(self._requests, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            self._answer(event="ready")
            while True:
                ready = [key.fd for key, _ in selector.select()]
                if self._woken.fileno() in ready:
                    self._woken.recv(4096)
                self._reap()
                if self._requests in ready and not self._read():
                    break
        self._end_ranks()

    def _read(self) -> bool:
        """Handle the requests that have come; False when there will be no more."""
        data = os.read(self._requests, 1 << 20)
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            self._handle(json.loads(line))
        return bool(data)

    def _handle(self, request: dict[str, Any]) -> None:
        where = {"job": request["job"], "rank": request["rank"]}
        try:
            plan = RankPlan.model_validate(request["plan"])
            for module in () if request["fresh"] else request["modules"]:
                importlib.import_module(module)
        except Exception:
            self._answer(event="failed", **where, detail=traceback.format_exc())
            return
        reason = None if request["fresh"] else self.unclean()
        fresh = request["fresh"] or reason is not None
        pid = self._fork(plan, request.get("worker", self._worker), fresh)
        self._answer(event="forked", **where, pid=pid, start="fresh" if fresh else "forked", reason=reason)

    def _fork(self, plan: RankPlan, worker: str, fresh: bool) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            child.run_rank(plan, worker, fresh=fresh, parent=parent, close=self._inherited)
        self._running.add(pid)
        return pid

    def unclean(self) -> str | None:
        """Why a fork of this process would not be a clean start: a device file is open, or a thread would be lost."""
        if devices := procfs.open_accelerator_files():
            return f"the parent holds {', '.join(devices)}"
        names = procfs.thread_names()
        return f"the parent has {len(names)} threads ({', '.join(names)})" if len(names) > self._threads else None

    def _reap(self) -> None:
        """Report every child that has ended; adopted grandchildren are reaped in silence."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._running:
                self._running.discard(pid)
                self._answer(event="exit", pid=pid, code=os.waitstatus_to_exitcode(status))

    def _end_ranks(self) -> None:
        for rank in self._running:
            for pid in procfs.session_members(rank):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:  # it ended by itself meanwhile
                    continue

    def _answer(self, **fields: Any) -> None:
        try:
            os.write(self._answers, json.dumps(fields).encode() + b"\n")
        except BrokenPipeError:  # the harness is gone: its end of the requests is closed too, and the loop ends on that
            return


def _private_streams() -> tuple[int, int]:
    """Move the protocol off descriptors 0 and 1, so that nothing which prints can spoil it."""
    requests, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return requests, answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", required=True)
    parser.add_argument("--harness", type=int, required=True, help="process id of the caller")
    parser.add_argument("modules", nargs="*", help="modules to import before the first fork")
    options = parser.parse_args()
    child.die_with_parent(options.harness, signal.SIGTERM)  # an import takes seconds in which nothing is read
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    child.become_subreaper()
    requests, answers = _private_streams()
    for module in options.modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a collection in a rank would otherwise copy every page of ours
    child.prctl(child.PR_SET_PDEATHSIG, 0)  # from here the closed input tells, whatever the thread that started us does
    ForkServer(options.worker, requests, answers).serve()


if __name__ == "__main__":
    main()
