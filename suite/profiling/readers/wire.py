"""Vectorised decoding of protobuf messages that lie in one buffer: many small messages at once, numpy only.

Wire format: https://protobuf.dev/programming-guides/encoding. A message is a sequence of tag and value; a varint is
little endian, seven bits a byte.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
PADDING = 16
"""Zero bytes that must follow the data in a buffer, so that a value can be read without looking where it ends."""


class WireError(ValueError):
    """Bytes that are no protobuf; `offset` is where, counted in the buffer."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(f"{message} at byte {offset}")
        self.offset = offset


@dataclass(frozen=True, eq=False)
class Fields:
    """All fields of many messages, flat: `message` (which), `number`, `kind` (wire type), and `value`.

    A varint's or fixed number's value is its 64 bits as int64; of bytes it is the offset in the buffer, with `length`.
    """

    message: Ints
    number: Ints
    kind: Ints
    value: Ints
    length: Ints


def buffer_of(data: bytes) -> Bytes:
    return np.frombuffer(data + bytes(PADDING), np.uint8)


def varints(buffer: Bytes, position: Ints) -> tuple[Ints, Ints]:
    """(values, positions behind them) of the varints at `position`. Raises WireError for one of more than 10 bytes."""
    byte = buffer[position].astype(np.int64)
    value = byte & 0x7F
    behind = position + 1
    rows = np.flatnonzero(byte & 0x80)
    for place in range(1, _LONGEST_VARINT + 1):
        if not rows.size:
            return value, behind
        if place == _LONGEST_VARINT:
            break
        byte = buffer[behind[rows]].astype(np.int64)
        value[rows] |= (byte & 0x7F) << (7 * place)
        behind[rows] += 1
        rows = rows[(byte & 0x80) != 0]
    raise WireError("a varint of more than 10 bytes", int(position[rows[0]]))


def fields(buffer: Bytes, start: Ints, end: Ints) -> Fields:
    """The fields of the messages [start, end) in `buffer`. Raises WireError where a message is no protobuf."""
    parts: list[tuple[Ints, ...]] = []
    message, position, stop = np.arange(start.size), start.astype(np.int64), end.astype(np.int64)
    while True:
        alive = position < stop
        if not alive.all():
            message, position, stop = message[alive], position[alive], stop[alive]
        if not message.size:
            break
        tag, at = varints(buffer, position)
        kind, number = tag & 7, tag >> 3
        value, behind, length = _values(buffer, kind, at, stop)
        if (behind > stop).any():
            raise WireError("a field that ends behind its message", int(position[np.argmax(behind > stop)]))
        parts.append((message, number, kind, value, length))
        position = behind
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.empty(0, np.int64)] * 5
    return Fields(*columns)


def _values(buffer: Bytes, kind: Ints, at: Ints, stop: Ints) -> tuple[Ints, Ints, Ints]:
    """(value, position behind, length) of values of mixed wire types."""
    value, behind, length = np.zeros_like(at), at.copy(), np.zeros_like(at)
    for one in np.flatnonzero(np.bincount(kind, minlength=8)):
        rows = np.flatnonzero(kind == one)
        where = at[rows]
        if one in (VARINT, BYTES):
            if (where >= stop[rows]).any():
                raise WireError("a field without a value", int(where[np.argmax(where >= stop[rows])]))
            value[rows], behind[rows] = varints(buffer, where)
            if one == BYTES:
                length[rows], value[rows] = value[rows], behind[rows]
                wrong = (length[rows] < 0) | (length[rows] > buffer.size)
                if wrong.any():
                    raise WireError("a field longer than the file", int(where[np.argmax(wrong)]))
                behind[rows] += length[rows]
        elif one in (FIXED64, FIXED32):
            size = 8 if one == FIXED64 else 4
            behind[rows] += size
            short = behind[rows] > buffer.size
            if short.any():
                raise WireError("a number that ends behind the file", int(where[np.argmax(short)]))
            raw = buffer[where[:, None] + np.arange(size)]
            value[rows] = raw.view(np.int64 if size == 8 else np.uint32).ravel()
        else:
            raise WireError(f"wire type {int(one)}, which is none", int(where[0]))
    return value, behind, length
