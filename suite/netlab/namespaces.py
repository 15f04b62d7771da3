"""Entering a network namespace, and what a process must be allowed for that. Linux only."""

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

RUN = Path("/run/netns")
"""Where iproute2 keeps the names of namespaces."""
STATUS = Path("/proc/self/status")
_CLONE_NEWNET = 0x40000000
_NEEDED = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}
"""Bits of the kernel's include/uapi/linux/capability.h."""

T = TypeVar("T")


def enter(namespace: str) -> None:
    """Move the calling thread, and what it starts, into the network namespace `namespace`. Raises OSError naming it."""
    path = RUN / namespace
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(descriptor, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(descriptor)


def inside(namespace: str, function: Callable[[], T]) -> T:
    """`function()` called in `namespace`, in a thread of its own: this one stays where it is.

    Sockets and files of /proc/thread-self/net that it opens belong to the namespace for good. Raises what it raises.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            enter(namespace)
            results.append(function())
        except BaseException as error:  # raised again below, in the thread that asked
            errors.append(error)

    thread = threading.Thread(target=work, name=f"in {namespace}")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def missing_capabilities(status: str) -> list[str]:
    """Names of the capabilities that making namespaces needs and a process lacks; `status` is its /proc/PID/status."""
    line = next((line for line in status.splitlines() if line.startswith("CapEff:")), "CapEff: 0")
    effective = int(line.split()[1], 16)
    return [name for name, bit in _NEEDED.items() if not effective >> bit & 1]


def refusal(status: str | None = None) -> str | None:
    """Why this process may not make namespaces, with what to do; None where it may."""
    missing = missing_capabilities(STATUS.read_text() if status is None else status)
    if not missing:
        return None
    return (
        f"netlab makes network namespaces, for which this process lacks {' and '.join(missing)}: run it as root "
        "(sudo), or in a container started with --cap-add NET_ADMIN --cap-add SYS_ADMIN (or --privileged)"
    )
