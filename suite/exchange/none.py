"""No compression: dense gradients are summed as they are, in packs of a given size; the rows of sparse ones gathered."""

from collections.abc import Sequence
from typing import Any

from tfscale.suite.exchange.base import Exchange
from tfscale.suite.exchange.sparse import fuse
from tfscale.suite.exchange.wire import PACK_MIB, Wire


class NoCompression(Exchange):
    """`none` or `none(pack_mib=25)`.

    `pack_mib` is how much travels in one collective: the first pack leaves while the backward pass still runs, and
    each pack has its own latency. 0 waits for all gradients and sends one (TensorFlow's own default).
    """

    name = "none"

    def __init__(self, pack_mib: float = PACK_MIB) -> None:
        super().__init__()
        if isinstance(pack_mib, bool) or not isinstance(pack_mib, int | float) or pack_mib < 0:
            raise TypeError(f"pack_mib is {pack_mib!r}, and must be a number of MiB, 0 or more")
        self._pack_mib = pack_mib

    def reduce(self, wire: Wire, gradients: Sequence[Any], riders: Any) -> tuple[list[Any], Any]:
        if wire.replicas == 1:
            return list(gradients), riders
        import tensorflow as tf

        groups = fuse(gradients)
        dense = [place for place, gradient in enumerate(gradients) if not isinstance(gradient, tf.IndexedSlices)]
        # Riders go first: the collectives run over the list in reverse, in the order in which the backward pass ends.
        sent = [riders, *(gradients[place] for place in dense), *(group.slices for group in groups)]
        summed = wire.sum(sent, self._pack_mib)
        means = dict(zip(dense, summed[1:], strict=False))
        for group, gathered in zip(groups, summed[1 + len(dense) :], strict=True):
            means.update(zip(group.places, group.split(gathered), strict=True))
        return [means[place] for place in range(len(gradients))], summed[0]
