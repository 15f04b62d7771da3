"""A TSV in the format of the Criteo click logs -> packed records of 160 bytes.

A line is label, 13 integers, 26 hexadecimal categories, separated by tabs; any field but the label may be empty.
A record is, little endian: label (int32), 13 x log(1 + max(value, 0)) (float32, empty = 0), 26 categories (uint32,
empty = 0). Categories keep all 32 bits of their hash; a reader takes them modulo its preset's table sizes, so that one
folder serves every preset.
"""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from tfscale.workloads.make import Converted, Progress
from tfscale.workloads.records import DataError, RecordWriter

DENSE, CATEGORICAL = 13, 26
RECORD = np.dtype([("label", "<i4"), ("dense", "<f4", (DENSE,)), ("categorical", "<u4", (CATEGORICAL,))])
_BLOCK_LINES = 8192
_GOOD_LINE = re.compile(rb"[01]\t(?:-?\d{1,18}\t|\t){13}(?:[0-9a-fA-F]{0,8}\t){25}[0-9a-fA-F]{0,8}")
_INTEGER = re.compile(rb"(?:-?\d{1,18})?")
_CATEGORY = re.compile(rb"[0-9a-fA-F]{0,8}")


class Options(BaseModel):
    """`tfscale data make recommender` has no options of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def convert(
    source: Path, writer: RecordWriter, shape: Any, options: Options, seed: int, progress: Progress
) -> Converted:
    """Write every line of the TSV `source` (`.gz` allowed) in its order, which in the click logs is that of time.

    Raises DataError with the number of the first bad line and its bad value. `seed` changes nothing here.
    """
    if source.is_dir():
        raise DataError(f"{source} is a folder; name one TSV file in Criteo's format (a .gz may stay packed)")
    clicks = lines = 0
    size = source.stat().st_size
    with source.open("rb") as raw:
        for block in _blocks(source, raw):
            table = parse(block, lines + 1)
            writer.rows(table.view(np.uint8).reshape(len(table), RECORD.itemsize))
            clicks += int(table["label"].sum())
            lines += len(table)
            progress(raw.tell(), size, "bytes")
    if lines == 0:
        raise DataError(f"{source} holds no line")
    return Converted(shape={"dense": DENSE, "tables": CATEGORICAL}, facts={"clicked": clicks / lines})


def _blocks(source: Path, raw: BinaryIO) -> Iterator[list[bytes]]:
    """The lines without their ends, some thousands at a time."""
    file = gzip.GzipFile(fileobj=raw) if source.suffix == ".gz" else raw
    block: list[bytes] = []
    try:
        for line in file:
            block.append(line.rstrip(b"\r\n"))
            if len(block) == _BLOCK_LINES:
                yield block
                block = []
    except (EOFError, gzip.BadGzipFile) as error:
        raise DataError(f"{source} is not a whole gzip file: {error}") from None
    if block:
        yield block


def parse(lines: list[bytes], first_number: int) -> NDArray[Any]:
    """Lines as an array of RECORD. `first_number` counts the first line, for the error that names a bad one."""
    for offset, line in enumerate(lines):
        if _GOOD_LINE.fullmatch(line) is None:
            raise DataError(f"line {first_number + offset}: {_fault(line)}")
    fields = [line.split(b"\t") for line in lines]
    table = np.zeros(len(lines), RECORD)
    table["label"] = [int(row[0]) for row in fields]
    values = np.array([[int(field) if field else 0 for field in row[1 : 1 + DENSE]] for row in fields], np.float64)
    table["dense"] = np.log1p(np.maximum(values, 0))
    table["categorical"] = [[int(field, 16) if field else 0 for field in row[1 + DENSE :]] for row in fields]
    return table


def _fault(line: bytes) -> str:
    """What is wrong with a line that is not in the format."""
    fields = line.split(b"\t")
    expected = 1 + DENSE + CATEGORICAL
    if len(fields) != expected:
        format_ = f"label, {DENSE} integers, {CATEGORICAL} categories"
        return f"{len(fields)} tab-separated fields, {expected} expected: {format_}"
    if fields[0] not in (b"0", b"1"):
        return f"label {_shown(fields[0])}, 0 or 1 expected"
    for number, value in enumerate(fields[1:], start=2):
        pattern, what = (_INTEGER, "an integer") if number <= 1 + DENSE else (_CATEGORY, "up to 8 hexadecimal digits")
        if pattern.fullmatch(value) is None:
            return f"field {number} is {_shown(value)}, {what} or nothing expected"
    raise AssertionError("a line that has no fault")


def _shown(value: bytes) -> str:
    text = value[:40].decode("utf-8", "replace")
    return repr(text + ("..." if len(value) > 40 else ""))
