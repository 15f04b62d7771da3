"""Random-k: the same k coordinates on every replica, so that their values can be summed on the way (Stich et al. 2018,
arXiv 1809.07599), with error feedback.

The vector is cut into runs of m = 1/ratio neighbours, and in each step one of each run is drawn: every coordinate is
picked with the probability 1/m, none twice, by k random numbers. A permutation of all coordinates would cost more than
sending them.
"""

from typing import Any

from tfscale.suite.exchange import noise
from tfscale.suite.exchange.compiled import compiled
from tfscale.suite.exchange.feedback import Feedback, finite
from tfscale.suite.exchange.packing import WORD_BYTES, groups_of
from tfscale.suite.exchange.vectors import InVectors
from tfscale.suite.exchange.wire import Wire


def payload_bytes(elements: int, run: int) -> int:
    """Bytes that a replica hands to collectives: one float32 of each run."""
    return WORD_BYTES * groups_of(elements, run)


class RandomK(InVectors):
    """`randomk`, `randomk(ratio=0.01)`: one of each `run` = 1/ratio elements, rounded to an integer, travels in a step.

    `seed` must be the same on all replicas. What was picked is sent as it is, a NaN too; a NaN that was not is dropped.
    """

    name = "randomk"
    exact = False
    moves = "some"

    def __init__(self, ratio: float = 0.01, seed: int = 0) -> None:
        super().__init__()
        if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 1e-6 <= ratio <= 1:
            raise TypeError(f"ratio is {ratio!r}, and must be a number from 1e-6 to 1")
        self._seed = noise.checked_seed(seed)
        self.run = round(1 / ratio)
        self._feedback = Feedback(self)

    def combine_flat(self, wire: Wire, flat: Any) -> Any:
        if wire.replicas == 1:
            return flat
        import tensorflow as tf

        with tf.name_scope("exchange/encode"):
            drawn = self.kept(wire, "drawn", [])
            residual = self._feedback.residual(wire, self._feedback.key(wire), flat.shape)
            places, values, kept, unsent = compiled(encode)(
                flat, residual.read_value(), drawn.read_value(), self._seed, self.run
            )
            drawn.assign_add(1.0)
            residual.assign(unsent)
            tf.raw_ops.ResourceScatterUpdate(resource=residual.handle, indices=places, updates=kept)
        (sums,) = wire.sum([values])
        with tf.name_scope("exchange/decode"):
            return tf.math.unsorted_segment_sum(sums, places, int(flat.shape[0]))

    def settle(self, replica: int, skipped: Any) -> None:
        self._feedback.settle(replica, skipped)


def encode(flat: Any, residual: Any, number: Any, seed: int, run: int) -> tuple[Any, Any, Any, Any]:
    """Places, the values that are sent of them and those that are kept of them, and the residual as if nothing were sent.

    Args:
        flat, residual: float32 [n].
        number: float32 scalar, how many vectors were encoded before.
    """
    import tensorflow as tf

    elements = int(flat.shape[0])
    drawn = places_of(noise.key_of(seed, tf.cast(number, tf.int32)), groups_of(elements, run), run)
    # The last run may be shorter. A place beyond the end stands for none, so that those in it are no likelier than others.
    inside, places = drawn < elements, tf.minimum(drawn, elements - 1)
    corrected = tf.gather(flat, places) + tf.gather(residual, places)
    zeros = tf.zeros_like(corrected)
    sent, kept = tf.where(inside, corrected, zeros), tf.where(inside, zeros, finite(corrected))
    return places, sent, kept, finite(flat + residual)


def places_of(key: Any, runs: int, run: int) -> Any:
    """int32 [runs]: one place in each run of `run` elements, equally likely."""
    import tensorflow as tf

    return tf.range(runs) * run + noise.below(run, [runs], key)
