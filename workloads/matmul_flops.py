"""FLOPs of the matmul-class operations that models are made of; one multiply-add counts 2, everything else counts 0.

A training step multiplies each dense layer's matrices three times: output = input x kernel, kernel gradient =
input^T x output gradient, input gradient = output gradient x kernel^T. A layer that reads data needs no input gradient,
so backward is not simply twice forward.
"""

from tfscale.suite.workload import Flops


def add(*parts: Flops) -> Flops:
    """The sum of `parts`."""
    return Flops(forward=sum(part.forward for part in parts), backward=sum(part.backward for part in parts))


def repeat(times: int, part: Flops) -> Flops:
    """`times` times `part`."""
    return Flops(forward=times * part.forward, backward=times * part.backward)


def matmul(rows: int, inner: int, columns: int, batch: int = 1) -> int:
    """FLOPs of `batch` products of [rows, inner] x [inner, columns]."""
    return 2 * batch * rows * inner * columns


def dense(rows: int, inputs: int, outputs: int, *, input_gradient: bool = True) -> Flops:
    """A dense layer on `rows` vectors: [rows, inputs] x [inputs, outputs]."""
    product = matmul(rows, inputs, outputs)
    return Flops(forward=product, backward=product * (2 if input_gradient else 1))


def attention(batch: int, heads: int, length: int, head_width: int) -> Flops:
    """Softmax attention without its projections: scores and context forward; gradients of v, p, q and k backward."""
    product = matmul(length, head_width, length, batch * heads)
    return Flops(forward=2 * product, backward=4 * product)


def encoder_block(batch: int, length: int, hidden: int, heads: int, intermediate: int) -> Flops:
    """One transformer block: query, key, value and output projections, attention, two dense layers."""
    rows = batch * length
    return add(
        dense(rows, hidden, 3 * hidden),
        attention(batch, heads, length, hidden // heads),
        dense(rows, hidden, hidden),
        dense(rows, hidden, intermediate),
        dense(rows, intermediate, hidden),
    )
