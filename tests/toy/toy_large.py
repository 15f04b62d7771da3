"""An XSpace of any number of events whose parts are known by construction, written with numpy. Not a test module.

On each of a few threads, operations of 3 us begin every 10 us; threads are 4 us apart, so their union is known. Events
of every second thread are shuffled.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))
from toy_timeline import PS, E, Timeline

from tfscale.suite.profiling.readers.xspace import message_class

THREADS, PERIOD_US, LENGTH_US, APART_US = 2, 10, 3, 4
STEP_OPERATIONS = 1000
"""Operations of one thread in a step."""
NAMES = 50


def large(events: int) -> bytes:
    """About `events` events (twice the operations of a thread, and a marker a step)."""
    each = events // THREADS
    steps = each // STEP_OPERATIONS
    length_us = STEP_OPERATIONS * PERIOD_US
    markers = [E("train", n * length_us, length_us, step_num=n, _r=1) for n in range(steps)]
    data = Timeline(host="large").line("/host:CPU", "python", markers).bytes()
    plane = message_class("Plane")(name=b"/host:CPU")
    for key in range(1, NAMES + 1):
        entry = plane.event_metadata.add(key=key)
        entry.value.id, entry.value.name = key, f"a{key}/MatMul:MatMul".encode()
    body = plane.SerializeToString()
    draw = np.random.default_rng(0)
    for thread in range(THREADS):
        start = np.arange(each, dtype=np.int64) * PERIOD_US * PS + thread * APART_US * PS
        if thread % 2:
            start = draw.permutation(start)
        line = message_class("Line")(id=thread, name=f"tf_Compute/{thread}".encode())
        body += _field(3, line.SerializeToString() + _events(draw.integers(1, NAMES + 1, each), start))
    return data + _field(1, body)


def _events(names: NDArray[np.int64], start: NDArray[np.int64]) -> bytes:
    """Events as field 4 of a line: metadata_id, offset_ps, duration_ps; varints padded to one width, which is legal."""
    length = np.full(start.size, LENGTH_US * PS, np.int64)
    columns = []
    for tag, values, width in ((1 << 3, names, 1), (2 << 3, start, 9), (3 << 3, length, 4)):
        columns += [np.full((start.size, 1), tag, np.uint8), _varints(values, width)]
    event = np.concatenate(columns, axis=1)
    head = np.tile(np.array([4 << 3 | 2, event.shape[1]], np.uint8), (start.size, 1))
    return np.concatenate((head, event), axis=1).tobytes()


def _varints(values: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    found = np.empty((values.size, width), np.uint8)
    for place in range(width):
        found[:, place] = (values >> (7 * place)) & 0x7F | (0x80 if place < width - 1 else 0)
    return found


def _field(number: int, data: bytes) -> bytes:
    size, length = bytearray(), len(data)
    while length >= 0x80:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2]) + bytes(size) + bytes([length]) + data
