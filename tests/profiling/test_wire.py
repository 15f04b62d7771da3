"""Vectorised protobuf decoding against the protobuf library."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfscale.suite.profiling.readers import wire
from tfscale.suite.profiling.readers.xplane import _columns
from tfscale.suite.profiling.readers.xspace import message_class

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(INT64, INT64, INT64, st.lists(st.tuples(INT64, INT64), max_size=3)), max_size=8))
def test_events_decode_as_the_library_says(events: list) -> None:
    encoded = []
    for metadata, offset, duration, stats in events:
        message = message_class("Event")(metadata_id=metadata, offset_ps=offset, duration_ps=duration)
        for key, value in stats:
            message.stats.add(metadata_id=key, int64_value=value)
        encoded.append(message.SerializeToString())
    ends = np.cumsum([len(data) for data in encoded], dtype=np.int64)
    starts = ends - np.array([len(data) for data in encoded], np.int64)
    buffer = wire.buffer_of(b"".join(encoded))
    found = wire.fields(buffer, starts, ends)
    for i, (metadata, offset, duration, stats) in enumerate(events):
        mine = found.message == i
        for number, value in ((1, metadata), (2, offset), (3, duration)):
            assert found.value[mine & (found.number == number)].tolist() == [value]
        inner = np.flatnonzero(mine & (found.number == 4))
        nested = wire.fields(buffer, found.value[inner], found.value[inner] + found.length[inner])
        pairs = [
            (nested.value[(nested.message == j) & (nested.number == 1)].tolist(),
             nested.value[(nested.message == j) & (nested.number == 4)].tolist())
            for j in range(len(stats))
        ]  # fmt: skip
        assert pairs == [([key], [value]) for key, value in stats]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x08" + b"\xff" * 11, "more than 10 bytes"),
        (b"\x08", "without a value"),
        (b"\x22\x7f\x00", "longer|behind its message"),
        (b"\x0b\x00", "wire type 3"),
        (b"\x09\x00", "behind"),
    ],
)
def test_what_is_no_protobuf_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(wire.WireError, match=words):
        wire.fields(wire.buffer_of(data), np.zeros(1, np.int64), np.array([len(data)]))


def test_columns_of_events_whose_fields_come_in_any_order() -> None:
    """Writers sort fields, and the quick way counts on it; the protobuf standard does not."""
    sorted_event = message_class("Event")(metadata_id=3, offset_ps=700, duration_ps=9).SerializeToString()
    turned = sorted_event[5:] + sorted_event[:5]
    stats_first = b"\x22\x02\x08\x05" + sorted_event
    without_offset = message_class("Event")(metadata_id=3, duration_ps=9).SerializeToString()
    events = [sorted_event, turned, without_offset, b"", stats_first]
    ends = np.cumsum([len(event) for event in events], dtype=np.int64)
    starts = np.concatenate(([0], ends[:-1]))
    found = _columns(wire.buffer_of(b"".join(events)), starts, ends)
    assert [column.tolist() for column in found] == [[3, 3, 3, 0, 3], [700, 700, 0, 0, 700], [9, 9, 9, 0, 9]]
