"""One run at a time in a results folder: `DIR/.lock` is locked by the harness that runs, and says who that is.

The lock is flock's, so it ends with its process, however that ends, and nothing stale is left to be cleaned away. Where
the disk has no flock, a file stands for it, which says on which host to look. Reading commands take no lock.
"""

import contextlib
import errno
import fcntl
import json
import os
import shlex
import socket
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tfscale.suite.environment.process import hushed
from tfscale.suite.runfolder import SUITE, utc_now

FILE = ".lock"
STAND_IN = ".lock.held"
"""Where the disk has no flock: exists for as long as the run lasts."""
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)


class HeldError(ValueError):
    """Another run holds the results folder; the message names it."""


class ResultsLock:
    """The lock of a results folder (or of the one that a run folder lies in), held within a `with`.

    Entering raises HeldError, or OSError where the folder cannot be written. `note` says what the lock cannot promise.
    """

    def __init__(self, results: Path) -> None:
        self.folder = results.resolve().parent if (results / SUITE).is_file() else results
        self.note: str | None = None
        self._handle: int | None = None
        self._stand_in: Path | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            self._take(handle)
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        handle, self._handle = self._handle, None
        if self._stand_in is not None:
            self._stand_in.unlink(missing_ok=True)
        if handle is not None:
            with contextlib.suppress(OSError):  # what it says is for people; a full or lost disk changes no lock
                os.ftruncate(handle, 0)
                fcntl.flock(handle, fcntl.LOCK_UN)  # a child on its way to exec has the handle too
            os.close(handle)

    def _take(self, handle: int) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HeldError(f"{self.folder} is in use: {told(self.folder / FILE)}; {_WAIT}") from None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            self._take_stand_in(error)
            return
        os.ftruncate(handle, 0)
        os.pwrite(handle, _me(), 0)

    def _take_stand_in(self, why: OSError) -> None:
        path = self.folder / STAND_IN
        if _left_behind(path):
            path.unlink(missing_ok=True)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            raise HeldError(
                f"{self.folder} is in use: {told(path)}; {_WAIT}. If that run has ended, delete {path}: "
                f"its disk has no locks ({why.strerror}), so nobody else can tell"
            ) from None
        with os.fdopen(handle, "wb") as file:
            file.write(_me())
        self._stand_in = path
        self.note = f"{self.folder} is on a disk without locks ({why.strerror}): {path} stands for one"


_WAIT = "wait for it, or name another folder with --results"


def told(path: Path) -> str:
    """Who holds the lock at `path`, as the file says."""
    holder = _holder(path)
    if not holder:
        return f"a run holds {path} and has not said which"
    return (
        f"`{holder.get('command')}`, process {holder.get('pid')} on {holder.get('host')}, since {holder.get('since')}"
    )


def _me() -> bytes:
    command = hushed(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]))
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "command": command, "since": utc_now()}
    return json.dumps(holder).encode() + b"\n"


def _holder(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):  # gone, or being written
        return {}
    return document if isinstance(document, dict) else {}


def _left_behind(path: Path) -> bool:
    """Whether a stand-in is of a process of this host that is no more. Of another host nobody can tell."""
    holder = _holder(path)
    if holder.get("host") != socket.gethostname() or not isinstance(holder.get("pid"), int):
        return False
    return not Path(f"/proc/{holder['pid']}").exists()
