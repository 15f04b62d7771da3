"""The file tree of the kernel, /sys and /proc, below a root that tests and bundles replace."""

import errno
from pathlib import Path
from typing import ClassVar

from tfscale.suite.sources.base import Answer, Source

_MOST_BYTES = 1 << 20
_UNSUPPORTED = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV, errno.ENODATA)
"""How the kernel says that a file which is there has nothing to tell: the speed of a link that is down, for one."""


class Files(Source):
    """Text files below `root`."""

    name: ClassVar[str] = "files"

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def ask(self, key: str) -> Answer:
        path = self._root / key
        try:
            if path.is_dir():
                return Answer(str(path.resolve().relative_to(self._root.resolve())))
            with path.open("rb") as file:
                return Answer(file.read(_MOST_BYTES).decode(errors="replace").strip())
        except (FileNotFoundError, NotADirectoryError):
            return Answer(state="absent", reason=f"/{key} is not there")
        except PermissionError:
            return Answer(state="no_permission", reason=f"/{key} may not be read by this user")
        except OSError as error:
            return Answer(
                state="unsupported" if error.errno in _UNSUPPORTED else "error", reason=f"/{key}: {error.strerror}"
            )
        except ValueError as error:  # a link that leads out of the root
            return Answer(state="error", reason=f"/{key}: {error}")

    def under(self, key: str) -> list[str]:
        try:
            return sorted(path.name for path in (self._root / key).iterdir())
        except OSError:
            return []
