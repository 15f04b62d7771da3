"""Each update rule against Keras' own optimiser on one device, dense and sparse, and by every way of applying it."""

from typing import Any

import numpy as np
import pytest

from tfscale.suite.workload import OptimizerSpec

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from tfscale.suite.training.optimizers import Updater, create_slots, rule_of, summed_rows  # noqa: E402

pytestmark = pytest.mark.tensorflow

SHAPES = [(300, 300), (7,)]
"""One variable above the size from which updates are compiled, one below."""

CASES: dict[str, tuple[OptimizerSpec, Any]] = {
    "sgd": (OptimizerSpec("sgd", 0.1), lambda: keras.optimizers.SGD(0.1)),
    "momentum": (
        OptimizerSpec("sgd", 0.1, {"momentum": 0.9}),
        lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    ),
    "nesterov": (
        OptimizerSpec("sgd", 0.1, {"momentum": 0.9, "nesterov": 1.0, "weight_decay": 0.01}),
        lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    ),
    "adagrad": (OptimizerSpec("adagrad", 0.05), lambda: keras.optimizers.Adagrad(0.05)),
    "adamw": (
        OptimizerSpec("adamw", 0.01, {"weight_decay": 0.02}),
        lambda: keras.optimizers.AdamW(0.01, weight_decay=0.02),
    ),
    "adamw, other betas": (
        OptimizerSpec("adamw", 0.01, {"beta_1": 0.8, "beta_2": 0.98, "epsilon": 1e-6, "weight_decay": 0.0}),
        lambda: keras.optimizers.AdamW(0.01, beta_1=0.8, beta_2=0.98, epsilon=1e-6, weight_decay=0.0),
    ),
}


def start(shapes: list[tuple[int, ...]]) -> list[np.ndarray[Any, Any]]:
    return [np.random.default_rng(1).normal(size=shape).astype(np.float32) for shape in shapes]


def gradients(shapes: list[tuple[int, ...]], step: int) -> list[np.ndarray[Any, Any]]:
    return [np.random.default_rng(100 + step).normal(size=shape).astype(np.float32) for shape in shapes]


def ours(spec: OptimizerSpec, update: Any, gradient_of: Any, shapes: list[tuple[int, ...]], steps: int = 10) -> Any:
    """The variables after `steps` updates."""
    variables = [tf.Variable(value) for value in start(shapes)]
    slots = create_slots(rule_of(spec), variables)
    updater = Updater(rule_of(spec), update)
    apply = tf.function(lambda grads, step: updater.apply(variables, slots, grads, step), autograph=False)
    for step in range(steps):
        apply(gradient_of(shapes, step), tf.constant(step, tf.int64))
    return [variable.numpy() for variable in variables]


def of_keras(optimizer: Any, gradient_of: Any, shapes: list[tuple[int, ...]], steps: int = 10) -> Any:
    variables = [keras.Variable(value) for value in start(shapes)]
    optimizer.build(variables)
    for step in range(steps):
        optimizer.apply_gradients(zip(gradient_of(shapes, step), variables, strict=True))
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


def dense(shapes: list[tuple[int, ...]], step: int) -> list[Any]:
    return [tf.constant(value) for value in gradients(shapes, step)]


@pytest.mark.parametrize("update", ["compiled", "kernels"])
@pytest.mark.parametrize("name", CASES)
def test_dense_equals_keras(name: str, update: str) -> None:
    spec, optimizer = CASES[name]
    for got, want in zip(ours(spec, update, dense, SHAPES), of_keras(optimizer(), dense, SHAPES), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6, rtol=1e-6)


ROWS = [(12, 3)]


def sparse(shapes: list[tuple[int, ...]], step: int) -> list[Any]:
    """Duplicate rows, and rows that are never touched."""
    generator = np.random.default_rng(step)
    rows = np.concatenate([generator.integers(0, 6, 5), [2, 2]]).astype(np.int32)
    values = generator.normal(size=(len(rows), shapes[0][1])).astype(np.float32)
    return [tf.IndexedSlices(tf.constant(values), tf.constant(rows), tf.constant(shapes[0], tf.int64))]


def distinct(shapes: list[tuple[int, ...]], step: int) -> list[Any]:
    """The same with the duplicates already summed."""
    rows, values = summed_rows(sparse(shapes, step)[0])
    return [tf.IndexedSlices(values, rows, tf.constant(shapes[0], tf.int64))]


@pytest.mark.parametrize("name", ["sgd", "adagrad"])
def test_sparse_equals_keras(name: str) -> None:
    """Keras' Adagrad squares duplicates one by one, so it gets them summed."""
    spec, optimizer = CASES[name]
    got, want = ours(spec, "compiled", sparse, ROWS), of_keras(optimizer(), distinct, ROWS)
    np.testing.assert_allclose(got[0], want[0], atol=1e-6, rtol=1e-6)
    np.testing.assert_array_equal(got[0][6:], start(ROWS)[0][6:])


@pytest.mark.parametrize("name", CASES)
def test_sparse_equals_dense_in_touched_rows(name: str) -> None:
    """With every row touched, a sparse gradient with duplicates is the dense gradient of its sums."""

    def all_rows(shapes: list[tuple[int, ...]], step: int) -> list[Any]:
        rows = tf.concat([tf.range(shapes[0][0]), tf.constant([3, 3])], 0)
        values = np.random.default_rng(step).normal(size=(shapes[0][0] + 2, shapes[0][1])).astype(np.float32)
        return [tf.IndexedSlices(tf.constant(values), rows, tf.constant(shapes[0], tf.int64))]

    def summed(shapes: list[tuple[int, ...]], step: int) -> list[Any]:
        return [tf.convert_to_tensor(all_rows(shapes, step)[0])]

    spec, _ = CASES[name]
    got, want = ours(spec, "kernels", all_rows, ROWS), ours(spec, "kernels", summed, ROWS)
    np.testing.assert_allclose(got[0], want[0], atol=1e-6, rtol=1e-6)


def test_untouched_rows_keep_value_and_moments() -> None:
    spec, _ = CASES["adamw"]
    np.testing.assert_array_equal(ours(spec, "compiled", sparse, ROWS)[0][6:], start(ROWS)[0][6:])


def test_unknown_hyper_parameter_is_named() -> None:
    with pytest.raises(ValueError, match="adamw has no 'beta1'"):
        rule_of(OptimizerSpec("adamw", 0.1, {"beta1": 0.9}))
