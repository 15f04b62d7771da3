"""Which replicas are neighbours, and how a vector is cut up to travel between them. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNED = 16
"""Elements: a slice of a float32 tensor that begins at a multiple of 64 bytes shares its memory, any other is copied."""


def racks_of(rack_of_replicas: Sequence[int]) -> list[tuple[int, ...]]:
    """Replicas of each rack, ascending; racks in the order in which their first replicas come."""
    racks: dict[int, list[int]] = {}
    for replica, rack in enumerate(rack_of_replicas):
        racks.setdefault(rack, []).append(replica)
    return [tuple(rack) for rack in racks.values()]


def columns_of(racks: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The replicas at each place of racks of one size: those that hold the same shard after a reduce-scatter."""
    return [tuple(sorted(column)) for column in zip(*racks, strict=True)]


def why_not(racks: Sequence[Sequence[int]]) -> str | None:
    """Why there are not two levels to exchange on, or None."""
    if len(racks) < 2:
        return "it needs replicas in several racks, and all are in one"
    sizes = [len(rack) for rack in racks]
    if len(set(sizes)) > 1:
        return f"it needs as many replicas in every rack, and there are {', '.join(map(str, sizes))}"
    return None


@dataclass(frozen=True)
class Piece:
    """Elements `begin` to `end` of flat tensor number `place`."""

    place: int
    begin: int
    end: int


def cut(sizes: Sequence[int], length: int) -> list[list[Piece]]:
    """Tensors of those sizes as one stream, the last tensor first, cut every `length` elements; the last cut is shorter.

    The backward pass ends with the first layers, so the first chunks of the stream are complete while it still runs.
    """
    chunks: list[list[Piece]] = [[]]
    room = length
    for place in reversed(range(len(sizes))):
        begin = 0
        while begin < sizes[place]:
            if room == 0:
                chunks.append([])
                room = length
            end = min(sizes[place], begin + room)
            chunks[-1].append(Piece(place, begin, end))
            room -= end - begin
            begin = end
    return [chunk for chunk in chunks if chunk]


def chunk_length(total: int, chunks: int, members: int) -> int:
    """Elements of a chunk when `total` are cut into about `chunks`, so that each of `members` gets an aligned share."""
    step = members * ALIGNED
    return -(-total // (chunks * step)) * step
