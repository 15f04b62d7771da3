"""The file tree of the kernel, /sys and /proc, below a root that tests and bundles replace."""

import errno
import os
from pathlib import Path
from typing import ClassVar

from tfscale.suite.sources.base import Answer, Source

_MOST_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 16
_UNSUPPORTED = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV, errno.ENODATA)
"""How the kernel says that a file which is there has nothing to tell: the speed of a link that is down, for one."""


class Files(Source):
    """Text files below `root`. Monitors ask hundreds of times a second, so it speaks to the system without pathlib."""

    name: ClassVar[str] = "files"

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._prefix = f"{str(root).rstrip('/')}/"

    def ask(self, key: str) -> Answer:
        try:
            return Answer(_read(self._prefix + key).decode(errors="replace").strip())
        except IsADirectoryError:
            return self._folder(key)
        except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
            return Answer(state="absent", reason=f"/{key} is not there")
        except PermissionError:
            if (self._root / key).is_dir():
                return self._folder(key)
            return Answer(state="no_permission", reason=f"/{key} may not be read by this user")
        except OSError as error:
            return Answer(
                state="unsupported" if error.errno in _UNSUPPORTED else "error", reason=f"/{key}: {error.strerror}"
            )

    def _folder(self, key: str) -> Answer:
        try:
            return Answer(str((self._root / key).resolve().relative_to(self._root.resolve())))
        except (OSError, ValueError) as error:  # gone by now; or a link that leads out of the root
            return Answer(state="error", reason=f"/{key}: {error}")

    def under(self, key: str) -> list[str]:
        try:
            return sorted(os.listdir(self._prefix + key))  # noqa: PTH208 (an order of magnitude faster than Path)
        except OSError:
            return []


def _read(path: str) -> bytes:
    """The first MiB of a file. The kernel hands its own files out in pieces, so one read is not enough."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, _CHUNK_BYTES)
        while piece := os.read(descriptor, _CHUNK_BYTES) if data and len(data) < _MOST_BYTES else b"":
            data += piece
        return data[:_MOST_BYTES]
    finally:
        os.close(descriptor)
