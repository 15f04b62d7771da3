"""The XSpace protobuf without TensorFlow: our own descriptor, in which events stay undecoded bytes.

Field numbers of tsl/profiler/protobuf/xplane.proto; names are ours where they are clearer. Python iterates over the
few planes, lines and names; wire.py decodes the many events.
"""

from typing import Any

from google.protobuf.message import DecodeError

from tfscale.suite.descriptors import BYTES, DOUBLE, INT64, UINT64, Fields, Messages
from tfscale.suite.profiling.table import TraceError

# Strings are declared as bytes: old writers put names of other encodings there, and one must not lose the file.
_MESSAGES: dict[str, Fields] = {
    "Space": {
        "planes": (1, "Plane", True),
        "errors": (2, BYTES, True),
        "warnings": (3, BYTES, True),
        "hostnames": (4, BYTES, True),
    },
    "Plane": {
        "id": (1, INT64, False),
        "name": (2, BYTES, False),
        "lines": (3, "Line", True),
        "event_metadata": (4, "EventEntry", True),
        "stat_metadata": (5, "StatEntry", True),
        "stats": (6, "Stat", True),
    },
    "Line": {
        "id": (1, INT64, False),
        "name": (2, BYTES, False),
        "timestamp_ns": (3, INT64, False),
        "events": (4, BYTES, True),
        "duration_ps": (9, INT64, False),
        "display_id": (10, INT64, False),
        "display_name": (11, BYTES, False),
    },
    "EventEntry": {"key": (1, INT64, False), "value": (2, "EventMetadata", False)},
    "StatEntry": {"key": (1, INT64, False), "value": (2, "StatMetadata", False)},
    "EventMetadata": {
        "id": (1, INT64, False),
        "name": (2, BYTES, False),
        "metadata": (3, BYTES, False),
        "display_name": (4, BYTES, False),
        "stats": (5, "Stat", True),
    },
    "StatMetadata": {"id": (1, INT64, False), "name": (2, BYTES, False)},
    "Stat": {
        "metadata_id": (1, INT64, False),
        "double_value": (2, DOUBLE, False),
        "uint64_value": (3, UINT64, False),
        "int64_value": (4, INT64, False),
        "str_value": (5, BYTES, False),
        "bytes_value": (6, BYTES, False),
        "ref_value": (7, UINT64, False),
    },
    "Event": {
        "metadata_id": (1, INT64, False),
        "offset_ps": (2, INT64, False),
        "duration_ps": (3, INT64, False),
        "stats": (4, "Stat", True),
        "num_occurrences": (5, INT64, False),
    },
}
STAT_VALUES = ("double_value", "uint64_value", "int64_value", "str_value", "bytes_value", "ref_value")


message_class = Messages("tfscale.trace", _MESSAGES).of
"""The class of one of the messages above."""


def parse(data: bytes, file: str) -> Any:
    """The Space message in `data`. Raises TraceError naming `file` and the byte where it breaks."""
    space = message_class("Space")()
    try:
        space.ParseFromString(data)
    except DecodeError as error:
        offset, what = damage(data)
        raise TraceError(f"{file}: not a whole XSpace protobuf: {what} at byte {offset} of {len(data)}") from error
    return space


def damage(data: bytes) -> tuple[int, str]:
    """(byte offset, what is wrong) of the first place where `data` is no XSpace, as deep as messages nest."""
    return _damage(memoryview(data), 0, "Space") or (0, "a malformed message")


def _damage(data: memoryview, base: int, message: str) -> tuple[int, str] | None:
    nested = {number: kind for number, kind, _ in _MESSAGES[message].values() if isinstance(kind, str)}
    position = 0
    while position < len(data):
        at = position
        tag, position = _varint(data, position)
        if tag is None or tag >> 3 == 0 or tag & 7 not in (0, 1, 2, 5):
            return base + at, "no field begins"
        if tag & 7 == 0:
            value, position = _varint(data, position)
            if value is None:
                return base + at, "an integer without end"
        elif tag & 7 == 2:
            length, position = _varint(data, position)
            if length is None or position + length > len(data):
                return base + at, f"field {tag >> 3} of {message} is longer than what holds it (truncated?)"
            inner = data[position : position + length]
            kind = nested.get(tag >> 3)
            found = _damage(inner, base + position, kind) if kind else None
            if found:
                return found
            position += length
        else:
            position += 8 if tag & 7 == 1 else 4
            if position > len(data):
                return base + at, "a number that is cut off"
    return None


def _varint(data: memoryview, position: int) -> tuple[int | None, int]:
    value = 0
    for place in range(10):
        if position >= len(data):
            return None, position
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, position
    return None, position


def text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
