"""Drop files from the page cache, or read them into it, and say how much of them is there afterwards (Linux)."""

import ctypes
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict


class PageCache(BaseModel):
    """What was asked for and what is true, for the record."""

    model_config = ConfigDict(frozen=True)

    requested: Literal["warm", "cold"]
    resident_fraction: float | None
    """Share of the files' pages in memory after the request, by mincore; None with a reason."""
    bytes: int
    reason: str | None = None

    @property
    def found(self) -> str | None:
        """What is true, in a word: warm, cold, or how much is resident; None where it could not be measured."""
        if self.resident_fraction is None:
            return None
        if self.resident_fraction > 0.95:
            return "warm"
        return "cold" if self.resident_fraction < 0.05 else f"{self.resident_fraction:.0%} resident"


def prepare(paths: Sequence[Path], state: Literal["warm", "cold"]) -> PageCache:
    """Bring `paths` into `state` and measure. A file system that ignores the request shows in `resident_fraction`."""
    for path in paths:
        if state == "cold":
            drop(path)
        else:
            read_through(path)
    size = sum(path.stat().st_size for path in paths)
    try:
        pages = [resident_pages(path) for path in paths]
    except OSError as error:
        return PageCache(requested=state, resident_fraction=None, bytes=size, reason=f"mincore failed: {error}")
    whole = sum(total for _, total in pages)
    fraction = sum(resident for resident, _ in pages) / whole if whole else 0.0
    return PageCache(requested=state, resident_fraction=fraction, bytes=size)


def prepare_folder(directory: Path, state: Literal["warm", "cold"]) -> PageCache:
    """`prepare` for every file below a data folder, whatever its format."""
    return prepare(sorted(path for path in directory.rglob("*") if path.is_file()), state)


def drop(path: Path) -> None:
    """Write back what is dirty and drop the file's pages; pages that another process has mapped stay."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def read_through(path: Path) -> None:
    buffer = bytearray(1 << 20)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def resident_pages(path: Path) -> tuple[int, int]:
    """(pages in memory, pages) of one file. Raises OSError.

    Linux tells the truth only to a process that may write the file or owns it; to others every page looks resident.
    """
    size = path.stat().st_size
    if size == 0:
        return 0, 0
    pages = -(-size // mmap.PAGESIZE)
    flags = (ctypes.c_ubyte * pages)()
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
        # A private writable mapping is not written to: ctypes needs a writable buffer to take its address.
        start = ctypes.c_char.from_buffer(mapped)
        try:
            _mincore(ctypes.addressof(start), size, flags)
        finally:
            del start
    return sum(flag & 1 for flag in flags), pages


def _mincore(address: int, size: int, flags: "ctypes.Array[ctypes.c_ubyte]") -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
