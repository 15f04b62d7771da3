"""What a rank says of the error that ends it: a reason that the engine can classify, and the traceback. No TensorFlow."""

import errno
import faulthandler
import signal
import traceback
from pathlib import Path

STACKS = "stacks.txt"
_OOM = ("ResourceExhaustedError", "MemoryError")
_XLA_UNSUPPORTED = (
    "Detected unsupported operations when trying to compile graph",
    "unsupported on XLA",
    "No registered 'XLA",
    "is not compilable",
    "Trying to access resource",
)
"""Parts of TensorFlow's messages when a function that must be compiled cannot be."""
_PORT = ("Could not start gRPC server", "Address already in use")


def describe(error: BaseException) -> tuple[str, str]:
    """(reason, traceback): oom, xla_unsupported, port_in_use, disk_full, or the error's type and first line."""
    chain = _chain(error)
    detail = "".join(traceback.format_exception(error))
    for one in chain:
        reason = _reason(one)
        if reason is not None:
            return reason, detail
    first_line = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first_line}"[:500], detail


def _reason(error: BaseException) -> str | None:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "disk_full"
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return "port_in_use"
    text = str(error)
    if any(part in text for part in _PORT):
        return "port_in_use"
    if type(error).__name__ in _OOM:
        return "disk_full" if "No space left on device" in text else "oom"
    if any(part in text for part in _XLA_UNSUPPORTED):
        return "xla_unsupported"
    return None


def _chain(error: BaseException) -> list[BaseException]:
    """The error and those it was raised from, the outermost first."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain


def dump_stacks_on_signal(directory: Path) -> None:
    """From now on SIGUSR1 appends the stacks of all threads to `<directory>/stacks.txt`; the file stays open."""
    directory.mkdir(parents=True, exist_ok=True)
    file = (directory / STACKS).open("a")
    _OPEN.append(file)
    faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)


_OPEN: list[object] = []
"""Keeps the stack file from being collected: the signal handler writes to its descriptor."""
