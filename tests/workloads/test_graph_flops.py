"""The counter on graphs whose FLOPs are known by hand."""

import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from tfscale.workloads import graph_flops  # noqa: E402


def _count(f, *shapes: tuple[int, ...]) -> dict[str, int]:
    return graph_flops.count(tf.function(f).get_concrete_function(*(tf.TensorSpec(shape) for shape in shapes)))


def test_matmul_in_every_orientation() -> None:
    assert _count(lambda a, b: a @ b, (2, 3), (3, 5)) == {"MatMul": 2 * 2 * 3 * 5}
    assert _count(lambda a, b: tf.matmul(a, b, transpose_a=True), (3, 2), (3, 5)) == {"MatMul": 60}
    assert _count(lambda a, b: tf.matmul(a, b, transpose_b=True), (2, 3), (5, 3)) == {"MatMul": 60}


def test_batch_matmul_broadcasts() -> None:
    assert _count(lambda a, b: a @ b, (4, 2, 3), (4, 3, 5)) == {"BatchMatMulV2": 240}
    assert _count(lambda a, b: tf.matmul(a, b, transpose_a=True), (4, 3, 2), (1, 3, 5)) == {"BatchMatMulV2": 240}


@pytest.mark.parametrize(
    ("equation", "shapes", "flops"),
    [
        ("ij,jk->ik", [(2, 3), (3, 5)], 60),
        ("bij,bkj->bik", [(4, 2, 3), (4, 5, 3)], 240),
        ("...ij,jk->...ik", [(4, 7, 2, 3), (3, 5)], 2 * 4 * 7 * 2 * 3 * 5),
        ("i,j->ij", [(6,), (7,)], 84),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]], flops: int) -> None:
    assert _count(lambda a, b: tf.einsum(equation, a, b), *shapes) == {"Einsum": flops}


def test_convolution_and_its_gradients() -> None:
    def step(x, kernel):
        with tf.GradientTape() as tape:
            tape.watch([x, kernel])
            y = tf.nn.conv2d(x, kernel, 2, "SAME")
        return tape.gradient(y, [x, kernel])

    one = 2 * (2 * 4 * 4 * 6) * (3 * 3 * 5)
    counts = _count(step, (2, 8, 8, 5), (3, 3, 5, 6))
    assert counts == {"Conv2DBackpropInput": one, "Conv2DBackpropFilter": one}
    assert _count(lambda x, k: tf.nn.conv2d(x, k, 2, "SAME"), (2, 8, 8, 5), (3, 3, 5, 6)) == {"Conv2D": one}


def test_called_functions_count_at_each_call() -> None:
    inner = tf.function(lambda a, b: a @ b)
    compiled = tf.function(lambda a, b: inner(a, b) @ b, jit_compile=True)
    assert _count(lambda a, b: inner(a, b) + compiled(a, b), (3, 3), (3, 3)) == {"MatMul": 3 * 54}


def test_elementwise_operations_count_nothing_and_unknown_shapes_are_refused() -> None:
    assert _count(lambda a, b: tf.nn.softmax(a * b), (3, 3), (3, 3)) == {}
    with pytest.raises(ValueError, match="not static"):
        _count(lambda a, b: a @ b, (None, 3), (3, 3))
