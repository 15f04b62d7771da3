"""Exchanges of flat vectors for which it does not matter where a vector is cut, as each bucket or run is on its own."""

from collections.abc import Sequence
from typing import Any

from tfscale.suite.exchange.dense import FlatExchange
from tfscale.suite.exchange.wire import MIB, Wire, in_reverse, payload_of


class InVectors(FlatExchange):
    """Gradients travel in several vectors, in the order of the backward pass, so that the first leaves while it runs.

    A large gradient is a vector of its own, and need not be copied into one.
    """

    vector_mib: float = 8.0
    """Neighbours are joined to vectors of at most so many MiB of float32. Above 32 MiB a step also pays for fresh pages:
    the C library returns such blocks at once, and getting 44 MB again costs as much as four passes over them."""

    def combine(self, wire: Wire, places: Sequence[int], gradients: Sequence[Any]) -> list[Any]:
        sizes = [payload_of([gradient]) for gradient in gradients]
        means: dict[int, Any] = {}
        for vector in in_reverse(sizes, self.vector_mib * MIB):
            parts = super().combine(wire, [places[i] for i in vector], [gradients[i] for i in vector])
            means.update(zip(vector, parts, strict=True))
        return [means[index] for index in range(len(gradients))]
