"""Top-k sparsification: the largest elements of the corrected gradient travel, the rest waits.

Aji and Heafield 2017, arXiv 1704.05021; with error feedback Stich, Cordonnier, Jaggi: "Sparsified SGD with Memory",
NeurIPS 2018, arXiv 1809.07599. Replicas pick different elements, so what they send is gathered, not summed: every
replica receives (n - 1) 8 k bytes, against about 8 (n - 1) / n bytes an element for a ring of float32. It moves fewer
only while ratio < 1 / n.

Splitting the vector among replicas, so that each sums one part (all-to-all, sum, all-gather), would not help: how many
elements fall into a part differs by step, so every part needs room for the worst case; and where replicas pick
different elements the sums are as many as what was sent, so the all-gather at the end would be no smaller.
"""

from typing import Any

from tfscale.suite.exchange.arguments import share
from tfscale.suite.exchange.compiled import compiled
from tfscale.suite.exchange.dense import FlatExchange
from tfscale.suite.exchange.feedback import Feedback
from tfscale.suite.exchange.selection import as_words, forget, how_many, largest, sum_of
from tfscale.suite.exchange.wire import Wire

DENSEST = 0.5
"""Share of elements at which pairs of index and value take as many bytes as the whole vector."""


class TopK(FlatExchange):
    """`topk` or `topk(ratio=0.01)`: the share of elements that each replica sends, over all large gradients together.

    What is not finite is sent first, so it is gone in later steps, unless it is more than that share.
    """

    name = "topk"
    exact = False
    moves = "some"

    def __init__(self, ratio: float = 0.01) -> None:
        super().__init__()
        self._ratio = share("ratio", ratio, below=DENSEST)
        self._feedback = Feedback(self)

    def combine_flat(self, wire: Wire, flat: Any) -> Any:
        import tensorflow as tf

        elements = int(flat.shape[0])
        residual = self._feedback.residual(wire, self._feedback.key(wire), [elements])
        with tf.name_scope("exchange/encode"):
            # In place: new vectors of this length cost more than all of the rest.
            corrected = residual.assign_add(flat).read_value()
            indices, values = largest(corrected, how_many(elements, self._ratio))
            words = as_words(indices, values)
            with tf.control_dependencies([words]):
                forget([residual], indices)
        gathered = wire.gather(words)
        with tf.name_scope("exchange/decode"):
            return compiled(sum_of)(gathered, elements)

    def settle(self, replica: int, skipped: Any) -> None:
        self._feedback.settle(replica, skipped)
