"""What the kernel counts in a network namespace, read from outside of it: two files, opened once from inside."""

import os
from typing import ClassVar

from tfscale.suite.netlab.namespaces import inside
from tfscale.suite.sources.base import Answer, Source

KEYS = ("proc/net/dev", "proc/net/snmp")
_THREAD = "/proc/thread-self/"
_CHUNK_BYTES = 1 << 16


class NamespaceFiles(Source):
    """KEYS as a process in `namespace` would read them. They stay open, and readable, until this process ends."""

    name: ClassVar[str] = "namespace"

    def __init__(self, namespace: str) -> None:
        self._descriptors: dict[str, int] = {}
        self._missing: Answer | None = None
        try:
            inside(namespace, self._open)
        except PermissionError:
            self._missing = Answer(state="no_permission", reason=f"network namespace {namespace} may not be entered")
        except OSError as error:
            self._missing = Answer(state="absent", reason=f"network namespace {namespace}: {error.strerror}")

    def ask(self, key: str) -> Answer:
        if self._missing is not None:
            return self._missing
        if key not in self._descriptors:
            return Answer(state="unsupported", reason=f"/{key} is not read from a namespace")
        try:
            return Answer(_read(self._descriptors[key]).decode(errors="replace").strip("\n"))
        except OSError as error:
            return Answer(state="error", reason=f"/{key}: {error.strerror}")

    def under(self, key: str) -> list[str]:
        return []

    def _open(self) -> None:
        for key in KEYS:
            self._descriptors[key] = os.open(_THREAD + key.removeprefix("proc/"), os.O_RDONLY | os.O_CLOEXEC)


def _read(descriptor: int) -> bytes:
    """All of the file as it is now: the kernel writes it anew for whoever reads from its begin."""
    data = b""
    while piece := os.pread(descriptor, _CHUNK_BYTES, len(data)):
        data += piece
    return data
