"""A rank's folder, sent piece by piece as it grows: the host's end (Feed) and the harness's (Copy).

Files that grow are sent from where the last look ended. All others are sent whole, and before the events that tell of
them: what a rank has announced is there when its announcement arrives.
"""

import base64
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tfscale.suite import events
from tfscale.suite.launchers.environment import STACKS
from tfscale.suite.rankfiles import LOG, TEMPORARY

GROWING = (LOG, STACKS, events.FILE)
"""Files that are only appended to, the events last: they may tell of what stands in the others."""
PIECE = 512 * 1024
_PART = ".part"


@dataclass(frozen=True)
class Piece:
    """Bytes of the file `path` (relative, with /) from `offset` on. `last`: the file is whole with it."""

    path: str
    offset: int
    data: bytes
    last: bool

    def document(self) -> dict[str, Any]:
        data = base64.b64encode(self.data).decode()
        return {"path": self.path, "offset": self.offset, "data": data, "last": self.last}

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Piece":
        """Raises ValueError or KeyError for what is no piece."""
        data = base64.b64decode(document["data"], validate=True)
        return cls(str(document["path"]), int(document["offset"]), data, bool(document["last"]))


class Feed:
    """What is new in a folder since the last look."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sent = dict.fromkeys(GROWING, 0)
        self._seen: dict[str, tuple[int, int]] = {}

    def pieces(self, *, final: bool) -> Iterator[Piece]:
        """The news; `final`: nobody writes there any more, so every file is as it stays."""
        grown = {name: _size(self._folder / name) for name in GROWING}
        if final or grown[events.FILE] > self._sent[events.FILE]:
            yield from self._whole_files()
        for name, size in grown.items():
            yield from self._growth(name, size)

    def _growth(self, name: str, size: int) -> Iterator[Piece]:
        if size <= self._sent[name]:
            return
        with (self._folder / name).open("rb") as file:
            file.seek(self._sent[name])
            while (left := size - self._sent[name]) > 0 and (data := file.read(min(PIECE, left))):
                yield Piece(name, self._sent[name], data, last=True)
                self._sent[name] += len(data)

    def _whole_files(self) -> Iterator[Piece]:
        for path in _files(self._folder):
            name = path.relative_to(self._folder).as_posix()
            try:
                status = path.stat()
                state = (status.st_size, status.st_mtime_ns)
                if name in GROWING or self._seen.get(name) == state:
                    continue
                with path.open("rb") as file:
                    yield from _pieces(name, file, status.st_size)
            except FileNotFoundError:  # renamed or removed since it was listed
                continue
            self._seen[name] = state


class Copy:
    """Keeps a folder as its Feed tells it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, piece: Piece) -> None:
        """Write one piece. Raises ValueError for a path that leaves the folder, OSError where it cannot be written."""
        path = self._inside(piece.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if piece.path in GROWING:
            with path.open("r+b" if path.exists() else "wb") as file:
                if piece.offset > os.fstat(file.fileno()).st_size:
                    raise ValueError(f"{piece.path}: a piece at {piece.offset} is beyond the end")
                file.seek(piece.offset)  # a piece that comes twice is written over itself
                file.write(piece.data)
            return
        part = path.with_name(f".{path.name}{_PART}")
        with part.open("wb" if piece.offset == 0 else "ab") as file:
            if file.tell() != piece.offset:
                raise ValueError(f"{piece.path}: a piece at {piece.offset} does not follow {file.tell()} bytes")
            file.write(piece.data)
        if piece.last:
            part.rename(path)

    def _inside(self, name: str) -> Path:
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts or not relative.parts or "\0" in name:
            raise ValueError(f"{name!r} is no path within a rank's folder")
        return self._folder / relative


def _pieces(name: str, file: Any, size: int) -> Iterator[Piece]:
    offset = 0
    while True:
        data = file.read(min(PIECE, size - offset))
        end = offset + len(data)
        last = end >= size or not data
        yield Piece(name, offset, data, last)
        if last:
            return
        offset = end


def _files(folder: Path) -> Iterator[Path]:
    """Regular files in `folder`, without those that are being written; links are not followed."""
    for place, _, names in os.walk(folder):
        for name in sorted(names):
            path = Path(place) / name
            if not name.endswith((TEMPORARY, _PART)) and path.is_file() and not path.is_symlink():
                yield path


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
