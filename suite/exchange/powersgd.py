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
from tfscale.suite.exchange.compiled import compiled
from tfscale.suite.exchange.dense import DenseExchange, joined, parted
from tfscale.suite.exchange.feedback import Feedback, finite
from tfscale.suite.exchange.wire import Wire

SEED = 1905_13727
"""From which all replicas draw the first Q."""
OUTER = 8
"""Rank up to which a product of factors is written as a sum of outer products."""


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

        shapes = [matrix_shape([int(size) for size in gradient.shape], self._rank) for gradient in gradients]
        with tf.name_scope("exchange/encode"):
            own = [tf.reshape(gradient, shape) for gradient, shape in zip(gradients, shapes, strict=True)]
            placed = list(zip(places, own, strict=True))
            residuals = [self._feedback.residual(wire, f"residual/{place}", matrix.shape) for place, matrix in placed]
            kept = [self.kept(wire, f"right/{place}", [self._rank, int(matrix.shape[1])]) for place, matrix in placed]
            late = [residual.read_value() for residual in residuals]
            starts = [orthonormal(tf.transpose(started(q, place))) for place, q in zip(places, kept, strict=True)]
            # The two parts of a share are never added up: that would be another pass over memory, and as much of it.
            left = [tf.matmul(a, q) + tf.matmul(b, q) for a, b, q in zip(own, late, starts, strict=True)]
        summed_left = sum_together(wire, left)
        with tf.name_scope("exchange/encode"):
            bases = [orthonormal(factor) for factor in summed_left]
            right = [onto(basis, a) + onto(basis, b) for a, b, basis in zip(own, late, bases, strict=True)]
            for residual, unsent in zip(residuals, compiled(unsent_of)(own, late, bases, right), strict=True):
                residual.assign(unsent)
        summed_right = sum_together(wire, right)
        with tf.name_scope("exchange/decode"):
            for q, new in zip(kept, summed_right, strict=True):
                q.assign(finite(new))  # zeros are drawn anew
            means = compiled(products)(bases, summed_right)
            return [tf.reshape(mean, gradient.shape) for mean, gradient in zip(means, gradients, strict=True)]

    def settle(self, replica: int, skipped: Any) -> None:
        self._feedback.settle(replica, skipped)


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
    """Q of the step before, [r, n], or where it is zero (at first; after a zero gradient or a NaN) normal numbers, by SEED."""
    import tensorflow as tf

    drawn = tf.random.stateless_normal(q.shape, [SEED, place])
    return tf.where(tf.reduce_any(tf.not_equal(q, 0.0)), tf.identity(q), drawn)


def orthonormal(columns: Any) -> Any:
    """Orthonormal columns that span those of a tall matrix, [m, r]; columns that depend on others become new directions."""
    import tensorflow as tf

    return tf.linalg.qr(columns, full_matrices=False).q


def onto(basis: Any, matrix: Any) -> Any:
    """Coordinates of the columns of a matrix [m, n] in a basis [m, r]: [r, n], which is read along rows of the matrix."""
    import tensorflow as tf

    return tf.matmul(basis, matrix, transpose_a=True)


def products(bases: Sequence[Any], coordinates: Sequence[Any]) -> list[Any]:
    """Each basis [m, r] times its coordinates [r, n]."""
    return [_product(basis, rows) for basis, rows in zip(bases, coordinates, strict=True)]


def unsent_of(own: Sequence[Any], late: Sequence[Any], bases: Sequence[Any], coordinates: Sequence[Any]) -> list[Any]:
    """own + late - basis coordinates, for each matrix; 0 where that is not finite."""
    sent = products(bases, coordinates)
    return [finite(a + b - product) for a, b, product in zip(own, late, sent, strict=True)]


def _product(basis: Any, rows: Any) -> Any:
    import tensorflow as tf

    if basis.shape[1] > OUTER:
        return tf.matmul(basis, rows)
    # As a sum of outer products XLA makes one loop of it and of what is done with it.
    outer = [basis[:, number, tf.newaxis] * rows[number] for number in range(basis.shape[1])]
    return sum(outer[1:], start=outer[0])


def sum_together(wire: Wire, tensors: Sequence[Any]) -> list[Any]:
    """Sums over replicas of all tensors, in one collective."""
    (summed,) = wire.sum([joined(tensors)], 0)
    return parted(summed, tensors)
