"""PowerSGD: a gradient matrix travels as two thin factors, the result of one step of power iteration.

Vogels, Karimireddy, Jaggi: "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization", NeurIPS
2019, arXiv 1905.13727, algorithms 1 and 2. With M_i the corrected share of replica i, an m x n matrix, and Q an n x r
matrix that all replicas have:

    P = sum of M_i Q;  B = orthonormal basis of P's columns;  Q = sum of M_i^T B;  mean = B Q^T

Both sums are ordinary all-reduces of r (m + n) numbers in all, whatever the number of replicas. The new Q starts the
next step, so that the iteration goes on over steps. What replica i keeps back is M_i - B B^T M_i, its own share of what
does not travel: over all replicas these add up to (sum of M_i) - mean, so nothing is lost and nothing counted twice.

The basis comes from Householder reflections, which need no threshold: a column of zeros, as a gradient that is zero for
a step leaves behind, becomes a new direction and not a zero that would stay for ever. Q is orthonormalised before use
as well; that changes no space, but keeps the squares of tiny gradients from falling out of float32. All replicas do
this alike on the same sums, so they agree as far as their processors do.
"""

import math
from collections.abc import Sequence
from typing import Any

from tfscale.suite.exchange.arguments import whole
from tfscale.suite.exchange.dense import DenseExchange, joined, parted
from tfscale.suite.exchange.feedback import Feedback
from tfscale.suite.exchange.wire import Wire

SEED = 1905_13727
"""From which all replicas draw the first Q."""


class PowerSgd(DenseExchange):
    """`powersgd` or `powersgd(rank=4)`: r columns a factor. Vectors, and matrices that it would not shrink, travel whole.

    It waits for all gradients before it sends anything: the packs cannot overlap with the backward pass.
    """

    name = "powersgd"
    exact = False
    tolerance = 2.0**-16  # equal elements are a matrix of rank 1

    def __init__(self, rank: int = 4) -> None:
        super().__init__()
        self._rank = whole("rank", rank)
        self._feedback = Feedback(self)

    def large(self, gradients: Sequence[Any]) -> list[int]:
        return [
            place
            for place in super().large(gradients)
            if matrix_shape([int(size) for size in gradients[place].shape], self._rank) is not None
        ]

    def combine(self, wire: Wire, places: Sequence[int], gradients: Sequence[Any]) -> list[Any]:
        import tensorflow as tf

        with tf.name_scope("exchange/encode"):
            shares = [self._corrected(wire, *each) for each in zip(places, gradients, strict=True)]
            kept = [self._right(wire, place, share) for place, share in zip(places, shares, strict=True)]
            starts = [orthonormal(started(q, place)) for place, q in zip(places, kept, strict=True)]
            left = [tf.matmul(share, start) for share, start in zip(shares, starts, strict=True)]
        summed_left = sum_together(wire, left)
        with tf.name_scope("exchange/encode"):
            bases = [orthonormal(factor) for factor in summed_left]
            right = [tf.matmul(share, basis, transpose_a=True) for share, basis in zip(shares, bases, strict=True)]
            for place, share, basis, own in zip(places, shares, bases, right, strict=True):
                sent = tf.matmul(basis, own, transpose_b=True)
                self._feedback.keep(wire, _residual(place), share, sent)
        summed_right = sum_together(wire, right)
        with tf.name_scope("exchange/decode"):
            for q, new in zip(kept, summed_right, strict=True):
                # A NaN would come back in every later step; zeros are drawn anew.
                q.assign(tf.where(tf.math.is_finite(new), new, tf.zeros_like(new)))
            means = [tf.matmul(*factors, transpose_b=True) for factors in zip(bases, summed_right, strict=True)]
            return [tf.reshape(mean, gradient.shape) for mean, gradient in zip(means, gradients, strict=True)]

    def settle(self, replica: int, skipped: Any) -> None:
        self._feedback.settle(replica, skipped)

    def _corrected(self, wire: Wire, place: int, gradient: Any) -> Any:
        import tensorflow as tf

        shape = matrix_shape([int(size) for size in gradient.shape], self._rank)
        return self._feedback.correct(wire, _residual(place), tf.reshape(gradient, shape))

    def _right(self, wire: Wire, place: int, share: Any) -> Any:
        """The variable that holds Q of the step before, zeros at first."""
        return self.kept(wire, f"right/{place}", [int(share.shape[1]), self._rank])


def matrix_shape(shape: Sequence[int], rank: int) -> tuple[int, int] | None:
    """The m x n as which a tensor of that shape is factored, or None where r (m + n) numbers are no fewer than m n.

    Its dimensions are divided into first ones and last ones where m + n is least (of equals, the first such place): a
    kernel [256, 4, 64] becomes 256 x 256 rather than 1024 x 64, and [3, 3, 64, 128] becomes 576 x 128.
    """
    divided = [(math.prod(shape[:place]), math.prod(shape[place:])) for place in range(1, len(shape))]
    if not divided:
        return None
    m, n = min(divided, key=sum)
    return (m, n) if rank * (m + n) < m * n else None


def started(q: Any, place: int) -> Any:
    """Q of the step before, or where it is zero (at first; after a zero gradient; after a NaN) normal numbers, by SEED."""
    import tensorflow as tf

    drawn = tf.random.stateless_normal(q.shape, [SEED, place])
    return tf.where(tf.reduce_any(tf.not_equal(q, 0.0)), tf.identity(q), drawn)


def orthonormal(columns: Any) -> Any:
    """Orthonormal columns that span those of a tall matrix, [m, r]; columns that depend on others become new directions."""
    import tensorflow as tf

    return tf.linalg.qr(columns, full_matrices=False).q


def sum_together(wire: Wire, tensors: Sequence[Any]) -> list[Any]:
    """Sums over replicas of all tensors, in one collective."""
    (summed,) = wire.sum([joined(tensors)], 0)
    return parted(summed, tensors)


def _residual(place: int) -> str:
    return f"residual/{place}"
