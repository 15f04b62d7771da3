"""The hand-written gradients against those that TensorFlow derives from the plain formulas."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from tfscale.workloads import layers, transformer  # noqa: E402


def _normal(*shape: int, seed: int = 0):
    return tf.constant(np.random.default_rng(seed).standard_normal(shape), tf.float32)


def _value_and_gradients(f, *arguments):
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        value = f(*arguments)
        # Weighted, since a plain sum has the same gradient everywhere.
        total = sum(tf.reduce_sum(part * _normal(*part.shape, seed=9)) for part in tf.nest.flatten(value))
    return [value, *tape.gradient(total, arguments, unconnected_gradients="zero")]


def _assert_equal(f, reference, *arguments, tolerance: float = 2e-5) -> None:
    got, expected = _value_and_gradients(f, *arguments), _value_and_gradients(reference, *arguments)
    for one, other in zip(tf.nest.flatten(got), tf.nest.flatten(expected), strict=True):
        scale = 1.0 + float(tf.reduce_max(tf.abs(other)))
        assert float(tf.reduce_max(tf.abs(one - other))) < tolerance * scale


def test_gelu() -> None:
    _assert_equal(layers.gelu, tf.nn.gelu, _normal(40, 30) * 3)
    _assert_equal(layers.gelu_tanh, lambda x: tf.nn.gelu(x, approximate=True), _normal(40, 30) * 3)


def test_gelu_of_extreme_values_is_finite() -> None:
    x = tf.constant([-3e4, -50.0, 0.0, 50.0, 3e4])
    for gelu in (layers.gelu, layers.gelu_tanh):
        value, gradient = _value_and_gradients(gelu, x)
        assert bool(tf.reduce_all(tf.math.is_finite(value) & tf.math.is_finite(gradient)))


def test_layer_norm() -> None:
    def reference(x, gamma, beta):
        mean, variance = tf.nn.moments(x, [1], keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-6)

    arguments = (_normal(50, 64) + 3, _normal(64, seed=1), _normal(64, seed=2))
    _assert_equal(lambda *a: layers.layer_norm(*a, 1e-6), reference, *arguments, tolerance=1e-4)


def test_tied_lookup_gives_one_dense_gradient() -> None:
    ids = tf.constant([3, 1, 3, 0])

    def tied(table, x):
        rows, again = layers.tied_lookup(table, ids)
        return rows, tf.matmul(x, again, transpose_b=True)

    def reference(table, x):
        return tf.one_hot(ids, 5) @ table, tf.matmul(x, table, transpose_b=True)

    _assert_equal(tied, reference, _normal(5, 8), _normal(6, 8, seed=1))
    assert isinstance(_value_and_gradients(tied, _normal(5, 8), _normal(6, 8, seed=1))[1], tf.Tensor)


def test_gather_rows() -> None:
    rows = tf.constant([4, 0, 4])
    _assert_equal(lambda x: layers.gather_rows(x, rows), lambda x: tf.one_hot(rows, 5) @ x, _normal(5, 8))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("dropped", [False, True])
def test_attention(biased: bool, dropped: bool) -> None:
    shape = (2, 3, 7, 4)
    bias = _normal(2, 1, 1, 7, seed=5) if biased else None
    keep = tf.cast(_normal(2, 3, 7, 7, seed=6) > 0, tf.float32) * 2 if dropped else None

    def reference(q, k, v):
        scores = tf.einsum("bhqd,bhkd->bhqk", q, k) / 2.0
        probabilities = tf.nn.softmax(scores if bias is None else scores + bias)
        return tf.einsum("bhqk,bhkd->bhqd", probabilities if keep is None else probabilities * keep, v)

    arguments = [_normal(*shape, seed=seed) for seed in (1, 2, 3)]
    _assert_equal(lambda q, k, v: transformer.attention(q, k, v, bias, keep), reference, *arguments)


def test_interaction() -> None:
    from tfscale.workloads.recommender.model import interaction

    def reference(z):
        products = tf.einsum("bid,bjd->bij", z, z)
        return tf.stack([products[:, i, j] for i in range(5) for j in range(i)], axis=1)

    _assert_equal(interaction, reference, _normal(3, 5, 4))


def test_dropout_keeps_the_mean_and_makes_nothing_at_rate_zero() -> None:
    x = tf.ones([200, 500])
    dropped = layers.Dropout(0.1, training=True)(x, 1)
    assert float(tf.reduce_mean(dropped)) == pytest.approx(1.0, abs=0.01)
    assert float(tf.reduce_mean(tf.cast(dropped == 0, tf.float32))) == pytest.approx(0.1, abs=0.01)
    assert layers.Dropout(0.1, training=False)(x, 1) is x
    assert layers.Dropout(0.0, training=True)(x, 1) is x


def test_dropout_masks_differ_between_sites_and_steps_and_repeat_within_one() -> None:
    x = tf.ones([20, 50])
    step, later = layers.Dropout(0.5, training=True), layers.Dropout(0.5, training=True)
    assert bool(tf.reduce_all(step(x, 1) == step(x, 1)))
    assert not bool(tf.reduce_all(step(x, 1) == step(x, 2)))
    assert not bool(tf.reduce_all(step(x, 1) == later(x, 1)))


@pytest.mark.parametrize("jit", [False, True])
def test_recompute_evaluates_again_and_gives_the_same_gradients(jit: bool) -> None:
    def f(x, w):
        return tf.sin(x @ w)

    def step(f, *arguments):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            # Not a linear function: the gradient that arrives must not be a constant that the compiler folds.
            loss = tf.reduce_sum(tf.square(f(*arguments)))
        return tape.gradient(loss, arguments)

    arguments = (_normal(4, 6), _normal(6, 6, seed=1))
    compiled = tf.function(lambda *a: step(layers.recompute(f), *a), jit_compile=jit)
    for one, other in zip(compiled(*arguments), step(f, *arguments), strict=True):
        assert float(tf.reduce_max(tf.abs(one - other))) < 1e-5
    if jit:
        hlo = compiled.experimental_get_compiler_ir(*arguments)(stage="optimized_hlo")
        # x w, x w again, and its two gradients: the compiler has not merged the first two.
        assert hlo.count(" dot(") >= 4, hlo
