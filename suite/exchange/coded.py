"""Exchanges whose codes cannot be summed on their way: every replica decodes what the others sent, and adds in float32.

Two routes, for P bytes of codes a replica and n replicas:

    whole     all-gather of all codes; each replica decodes them all: (n-1) P bytes received
    parts     all-to-all, so that each replica decodes and sums one part; it encodes the sum again, and an all-gather
              brings the parts together: 2 (n-1)/n P bytes received (the scheme of 1-bit Adam, arXiv 2102.02888)
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any

from tfscale.suite.exchange.compiled import compiled
from tfscale.suite.exchange.packing import WORD_BYTES, flat_of, groups_of
from tfscale.suite.exchange.vectors import InVectors
from tfscale.suite.exchange.wire import Wire


def whole_bytes(groups: int, words: int, replicas: int) -> int:
    """Bytes that a replica receives when all get all codes: `groups` of `words` int32 words from each other one."""
    return WORD_BYTES * (replicas - 1) * groups * words


def parts_bytes(groups: int, words: int, replicas: int) -> int:
    """Bytes that a replica receives when each sums one part: the part of each other one, then each other part's sum."""
    return 2 * WORD_BYTES * (replicas - 1) * groups_of(groups, replicas) * words


def in_parts(groups: int, words: int, replicas: int) -> bool:
    """Whether parts move fewer bytes; at the same number one collective is better than two."""
    return parts_bytes(groups, words, replicas) < whole_bytes(groups, words, replicas)


def payload_bytes(elements: int, bucket: int, words: int, replicas: int) -> int:
    """Bytes that a replica hands to collectives for a vector of `elements`, whose buckets become `words` words each."""
    groups = groups_of(elements, bucket)
    if not in_parts(groups, words, replicas):
        return WORD_BYTES * groups * words
    part = groups_of(groups, replicas)
    return WORD_BYTES * (replicas * part + part) * words


class Coded(InVectors):
    """What such exchanges have in common. A *bucket* is a run of elements with a scale of its own.

    A bucket of [rows, l] elements becomes l words of codes, and one that holds its scale.
    """

    exact = False

    def __init__(self, bucket: int, rows: int) -> None:
        super().__init__()
        if isinstance(bucket, bool) or not isinstance(bucket, int) or bucket < rows or bucket % rows:
            raise TypeError(f"bucket is {bucket!r}, and must be a number of elements, a multiple of {rows}")
        self.bucket = bucket
        self.words = bucket // rows + 1

    @abstractmethod
    def encode(self, wire: Wire, flat: Any, groups: int) -> Any:
        """A float32 vector as int32 words [groups, words]; `groups` may be more than its elements need."""

    @property
    @abstractmethod
    def decode(self) -> Callable[[Any], Any]:
        """The pure function from words [..., words] to float32 [..., rows, l], fit for `compiled`."""

    def combine_flat(self, wire: Wire, flat: Any) -> Any:
        if wire.replicas == 1:
            return flat
        import tensorflow as tf

        elements = int(flat.shape[0])
        groups = groups_of(elements, self.bucket)
        if not in_parts(groups, self.words, wire.replicas):
            with tf.name_scope("exchange/encode"):
                sent = self.encode(wire, flat, groups)
            received = wire.gather(sent)
            with tf.name_scope("exchange/decode"):
                return flat_of(compiled(total_of(self.decode))(received), elements)
        part = groups_of(groups, wire.replicas)
        with tf.name_scope("exchange/encode"):
            sent = self.encode(wire, flat, part * wire.replicas)
        received = wire.all_to_all(tf.reshape(sent, [wire.replicas, part, self.words]))
        own = min(max(elements - wire.replica * part * self.bucket, 0), part * self.bucket)
        with tf.name_scope("exchange/decode"):
            total = flat_of(compiled(total_of(self.decode))(received), own)
        with tf.name_scope("exchange/encode"):
            again = self.encode(wire, total, part)
        totals = wire.gather(again)
        with tf.name_scope("exchange/decode"):
            return flat_of(compiled(self.decode)(totals), elements)


@cache
def total_of(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function from the words of all replicas, [replicas, groups, words], to the sum of what they say."""

    def total(words: Any) -> Any:
        import tensorflow as tf

        first, *others = (decode(each) for each in tf.unstack(words))
        return sum(others, start=first)

    return total
