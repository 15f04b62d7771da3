"""TFRecord files written without TensorFlow, and the manifest of the folder that holds them.

A folder made by `tfscale data make` holds F files of equal length, written round robin: record i is in file i mod F.
`manifest.json` says what they are; a reader refuses a folder that does not fit its workload and preset.

Framing of one record (TensorFlow's core/lib/io/record_writer): length as uint64, masked CRC-32C of those 8 bytes, data,
masked CRC-32C of the data; all little endian.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, BinaryIO, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tfscale.suite.crc32c import crc32c, crc32c_rows, masked

MANIFEST = "manifest.json"
SCHEMA = "tfscale.data/1"
_NO_LIMITS: Mapping[str, int] = {}

Bytes = NDArray[np.uint8]


class DataError(ValueError):
    """Source data or a data folder that cannot be used; the message says what was found and what to do."""


class Manifest(BaseModel):
    """What a data folder holds. `shape` are the numbers that a preset must fit, `facts` what else is good to know."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_: Annotated[Literal["tfscale.data/1"], Field(alias="schema")] = "tfscale.data/1"
    workload: str
    files: tuple[str, ...]
    records: int
    """Over all files; each holds the same number."""
    dropped: int
    """Samples left out at the end so that the files are of equal length (fewer than there are files)."""
    skipped: int
    """Samples of the source that could not be read."""
    bytes: int
    digest: str
    """SHA-256 over the checksums of all records in order: equal content has an equal digest."""
    seed: int
    source: str
    """Name (without its folder) of what the data were made from."""
    shape: dict[str, int]
    facts: dict[str, Any]

    def paths(self, directory: Path) -> list[Path]:
        return [directory / name for name in self.files]


def frame(rows: Bytes) -> tuple[Bytes, NDArray[np.uint32]]:
    """Records of equal length (n x length) as TFRecord frames (n x (length + 16)), and their data checksums."""
    count, length = rows.shape
    head = np.frombuffer(np.uint64(length).astype("<u8").tobytes(), np.uint8)[None, :]
    head_crc = masked(crc32c_rows(head)).astype("<u4").view(np.uint8)
    data_crc = masked(crc32c_rows(rows)).astype("<u4")
    framed = np.empty((count, length + 16), np.uint8)
    framed[:, :8] = head
    framed[:, 8:12] = head_crc
    framed[:, 12:-4] = rows
    framed[:, -4:] = data_crc.view(np.uint8).reshape(count, 4)
    return framed, data_crc


class RecordWriter:
    """Writes records round robin over `files` new files of `directory`; whole rounds only, so all end equally long."""

    def __init__(self, directory: Path, files: int) -> None:
        if files < 1:
            raise DataError(f"the number of files is {files}; it must be at least 1")
        self.directory = directory
        self.names = tuple(f"data-{number:05d}-of-{files:05d}.tfrecord" for number in range(files))
        self._files: list[BinaryIO] = [(directory / name).open("wb") for name in self.names]
        self._round: list[bytes] = []
        self._round_checksums = b""
        self._digest = hashlib.sha256()
        self.records = 0
        """Records handed in so far, an unfinished round included."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files:
            file.flush()
            os.fsync(file.fileno())  # a page that is not on disk yet cannot be dropped from the page cache
            file.close()

    def record(self, data: bytes) -> None:
        """Append one record."""
        self.rows(np.frombuffer(data, np.uint8)[None, :])

    def rows(self, rows: Bytes) -> None:
        """Append records of equal length (n x length, uint8)."""
        framed, checksums = frame(rows)
        files = len(self._files)
        head = min(len(rows), -self.records % files)
        whole = head + (len(rows) - head) // files * files
        self._singly(framed[:head], checksums[:head])
        if whole > head:
            for number, file in enumerate(self._files):
                file.write(framed[head + number : whole : files].tobytes())
            self._digest.update(checksums[head:whole].tobytes())
        self._singly(framed[whole:], checksums[whole:])
        self.records += len(rows)

    def _singly(self, framed: Bytes, checksums: NDArray[np.uint32]) -> None:
        for row in framed:
            self._round.append(row.tobytes())
        self._round_checksums += checksums.tobytes()
        if len(self._round) == len(self._files):
            for file, data in zip(self._files, self._round, strict=True):
                file.write(data)
            self._digest.update(self._round_checksums)
            self._round, self._round_checksums = [], b""

    @property
    def kept(self) -> int:
        return self.records - len(self._round)

    def manifest(self, **fields: Any) -> Manifest:
        """The manifest of what was written; `fields` are those that the writer cannot know. Call it before closing."""
        if self.kept == 0:
            raise DataError(
                f"{self.records} samples do not fill {len(self.names)} files with one each; "
                "give more source data or fewer --files"
            )
        size = sum(file.tell() for file in self._files)
        counts = {"records": self.kept, "dropped": len(self._round), "bytes": size, "digest": self._digest.hexdigest()}
        return Manifest(files=self.names, **counts, **fields)


def read_records(path: Path) -> Iterator[bytes]:
    """The records of one TFRecord file, checksums verified. Raises DataError at the first damaged one."""
    data = path.read_bytes()
    offset = 0
    while offset < len(data):
        length = int.from_bytes(data[offset : offset + 8], "little")
        body = data[offset + 12 : offset + 12 + length]
        check = data[offset + 12 + length : offset + 16 + length]
        if len(check) < 4 or int(masked(np.array([crc32c(body)], np.uint32))[0]) != int.from_bytes(check, "little"):
            raise DataError(f"{path.name}: the record at byte {offset} is damaged; make the data again")
        yield body
        offset += 16 + length


def write_manifest(directory: Path, manifest: Manifest) -> None:
    (directory / MANIFEST).write_text(manifest.model_dump_json(indent=1, by_alias=True) + "\n")


def read_manifest(directory: Path) -> Manifest:
    """The manifest of `directory`. Raises DataError when there is none, or it is of another schema or damaged."""
    path = directory / MANIFEST
    if not path.is_file():
        raise DataError(f"{directory} has no {MANIFEST}; make a data folder with: {_command('WORKLOAD')}")
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DataError(f"{path} is not a {SCHEMA} manifest: {where}: {first['msg']}; make the data again") from None


def open_folder(
    directory: Path,
    workload: str,
    *,
    exactly: Mapping[str, int] = _NO_LIMITS,
    at_most: Mapping[str, int] = _NO_LIMITS,
    at_least: Mapping[str, int] = _NO_LIMITS,
) -> Manifest:
    """The manifest of a folder that must hold data of `workload`; each limit bounds an entry of the manifest's `shape`.

    Raises DataError naming the entry, what the folder has, what the preset needs, and the command that helps.
    """
    manifest = read_manifest(directory)
    if manifest.workload != workload:
        raise DataError(
            f"{directory} holds data of {manifest.workload}; make those of {workload}: {_command(workload)}"
        )
    for word, limits in (("", exactly), ("at most ", at_most), ("at least ", at_least)):
        for name, wanted in limits.items():
            _require(directory, manifest, name, word, wanted)
    for path in manifest.paths(directory):
        if not path.is_file():
            raise DataError(f"{directory} lacks {path.name}, which its manifest names; make the data again")
    return manifest


def _require(directory: Path, manifest: Manifest, name: str, word: str, wanted: int) -> None:
    found = manifest.shape.get(name)
    fits = found is not None and {"": found == wanted, "at most ": found <= wanted, "at least ": found >= wanted}[word]
    if not fits:
        raise DataError(
            f"{directory} was made with {name} {found}, but the preset needs {word}{wanted}; "
            f"make the data for this preset: {_command(manifest.workload)}"
        )


def _command(workload: str) -> str:
    return f"tfscale data make {workload} --preset PRESET --from PATH --out DIR"
