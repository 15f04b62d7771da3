"""Packing: which dense gradients travel together, and in which order. The means are those of `none`.

TensorFlow carries the collectives of a replica one after another, in the order in which they were traced. A pack can
leave once its last gradient is there, so the order should be that of the backward pass: the last variable's first.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from tfscale.suite.exchange.arguments import at_least_zero
from tfscale.suite.exchange.base import Exchange
from tfscale.suite.exchange.sparse import fuse
from tfscale.suite.exchange.wire import MIB, Wire, in_reverse


class Packed(Exchange):
    """What packing exchanges have in common: `packs` says what travels together.

    Riders go with the last pack, which leaves when everything is known: one of them tells of overflow in any gradient.
    Sparse gradients follow, those of one width joined.
    """

    @abstractmethod
    def packs(self, sizes: Sequence[int]) -> list[list[int]]:
        """Groups of places, in the order in which they are sent, of dense float32 gradients of so many elements."""

    def reduce(self, wire: Wire, gradients: Sequence[Any], riders: Any) -> tuple[list[Any], Any]:
        if wire.replicas == 1:
            return list(gradients), riders
        groups = fuse(gradients)
        sparse = {place for group in groups for place in group.places}
        dense = [place for place in range(len(gradients)) if place not in sparse]
        packs = self.packs([int(gradients[place].shape.num_elements()) for place in dense]) or [[]]
        means: dict[int, Any] = {}
        for number, pack in enumerate(packs):
            places = [dense[index] for index in pack]
            along = [riders] if number == len(packs) - 1 else []
            summed = wire.sum([*(gradients[place] for place in places), *along], 0)
            means.update(zip(places, summed, strict=False))
        riders = summed[-1]
        for group, gathered in zip(groups, wire.sum([group.slices for group in groups]), strict=True):
            means.update(zip(group.places, group.split(gathered), strict=True))
        return [means[place] for place in range(len(gradients))], riders


class Pack(Packed):
    """`pack` or `pack(mib=4)`: neighbours in reverse order, at most `mib` MiB together; a larger gradient goes alone."""

    name = "pack"

    def __init__(self, mib: float = 4.0) -> None:
        super().__init__()
        self._limit = at_least_zero("mib", mib) * MIB

    def packs(self, sizes: Sequence[int]) -> list[list[int]]:
        return in_reverse([4 * size for size in sizes], self._limit)
