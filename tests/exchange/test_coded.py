"""Which way codes travel, from a count of every single transfer."""

import pytest

from tfscale.suite.exchange.coded import in_parts, parts_bytes, payload_bytes, whole_bytes


def received(groups: int, words: int, replicas: int, *, parts: bool) -> int:
    """Bytes that the replica which receives most gets, word by word, from every other."""
    got = [0] * replicas
    part = 1
    while part * replicas < groups:
        part += 1
    for to in range(replicas):
        for sender in range(replicas):
            if to != sender:
                for _ in range(part if parts else groups):
                    got[to] += 4 * words  # its codes of the part that `to` sums, or all of them
                if parts:
                    for _ in range(part):
                        got[to] += 4 * words  # the sum that `sender` made
    return max(got)


TABLE = [
    (groups, words, replicas) for groups in (1, 2, 3, 7, 64, 1000) for words in (33, 129) for replicas in range(2, 10)
]


@pytest.mark.parametrize(("groups", "words", "replicas"), TABLE)
def test_the_way_with_fewer_bytes_is_taken(groups: int, words: int, replicas: int) -> None:
    whole = received(groups, words, replicas, parts=False)
    parts = received(groups, words, replicas, parts=True)
    assert (whole_bytes(groups, words, replicas), parts_bytes(groups, words, replicas)) == (whole, parts)
    assert in_parts(groups, words, replicas) is (parts < whole)


def test_two_replicas_gather_and_more_share_the_work() -> None:
    """11 million elements of int8: P = 11.1 MB received by two, 2 (n-1)/n P by n."""
    groups = 21485
    assert not in_parts(groups, 129, 2)
    assert [in_parts(groups, 129, replicas) for replicas in (3, 4, 64)] == [True] * 3
    assert not in_parts(1, 129, 8), "one bucket has no parts"
    assert parts_bytes(groups, 129, 64) < 2 * 4 * 129 * groups < whole_bytes(groups, 129, 4)


def test_bytes_handed_in() -> None:
    assert payload_bytes(512, 512, 129, 2) == 516
    assert payload_bytes(513, 512, 129, 2) == 1032
    # Four replicas and 10 buckets: parts of 3, so 12 are handed to the all-to-all and 3 to the gather.
    assert payload_bytes(5000, 512, 129, 4) == 15 * 516
