"""Who shares a rack, and how a stream of gradients is cut."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfscale.suite.exchange.racks import ALIGNED, Piece, chunk_length, columns_of, cut, racks_of, why_not
from tfscale.suite.exchange.wire import Alone, group_of


def test_replicas_of_racks_and_columns() -> None:
    assert racks_of([0, 0, 1, 1]) == [(0, 1), (2, 3)]
    assert racks_of([5, 2, 5, 2, 2, 5]) == [(0, 2, 5), (1, 3, 4)]
    assert columns_of([(0, 2, 5), (1, 3, 4)]) == [(0, 1), (2, 3), (4, 5)]
    assert columns_of([(1, 2), (0, 3)]) == [(0, 1), (2, 3)]


@pytest.mark.parametrize(
    ("racks", "says"),
    [
        ([0, 0, 1, 1], None),
        ([0, 1, 2], None),
        ([3, 3], "all are in one"),
        ([], "all are in one"),
        ([0, 1, 1], "there are 1, 2"),
    ],
)
def test_two_levels_need_equal_racks(racks: list[int], says: str | None) -> None:
    reason = why_not(racks_of(racks))
    assert reason is None if says is None else reason is not None and says in reason


def test_a_stream_begins_with_the_last_tensor() -> None:
    assert cut([5, 4], 3) == [
        [Piece(1, 0, 3)],
        [Piece(1, 3, 4), Piece(0, 0, 2)],
        [Piece(0, 2, 5)],
    ]
    assert cut([], 3) == []
    assert cut([0, 2, 0], 5) == [[Piece(1, 0, 2)]]


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(1, 60))
def test_every_element_travels_once_and_in_order(sizes: list[int], length: int) -> None:
    chunks = cut(sizes, length)
    assert [sum(p.end - p.begin for p in chunk) for chunk in chunks[:-1]] == [length] * (len(chunks) - 1)
    for place, size in enumerate(sizes):
        own = [range(p.begin, p.end) for p in chain(*chunks) if p.place == place]
        assert list(chain(*own)) == list(range(size))


@pytest.mark.parametrize(
    ("total", "chunks", "members", "wanted"),
    [(2_500_000, 10, 2, 250_016), (2**20, 4, 2, 2**18), (5, 1, 2, 32), (5, 4, 1, 16)],
)
def test_chunks_are_shared_and_aligned(total: int, chunks: int, members: int, wanted: int) -> None:
    length = chunk_length(total, chunks, members)
    assert length == wanted
    assert length % (members * ALIGNED) == 0 and length * chunks >= total


def test_groups_must_divide_the_replicas() -> None:
    assert group_of(2, [(0, 3), (1, 2)], 4) == (1, 2)
    for groups in ([(0, 1)], [(0, 1), (1, 2, 3)], [(0, 1), (2, 4)], []):
        with pytest.raises(ValueError, match="do not divide the replicas 0 to 3"):
            group_of(0, groups, 4)
    with pytest.raises(ValueError, match="ascending"):
        group_of(0, [(1, 0), (2, 3)], 4)
    alone = Alone()
    assert alone.among([[0]]) is alone
    with pytest.raises(ValueError, match="do not divide"):
        alone.among([[0, 1]])
