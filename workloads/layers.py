"""What the models are made of: differentiable functions on 2-D activations, and Keras layers that hold their weights.

Activations stay [rows, width] with rows = batch x length, so that every dense layer is one plain MatMul. Where the
gradient that TensorFlow derives makes more passes over memory than the mathematics needs, the function states its own.
Matmuls run in the compute dtype of the dtype policy; normalisation, softmax and GELU are worked out in float32.
"""

import math
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import keras
import tensorflow as tf

from tfscale.suite.workload import random

Tensor = Any
Gradient = Callable[..., Any]
P = ParamSpec("P")
R = TypeVar("R")


def with_gradient(f: Callable[P, tuple[R, Gradient]]) -> Callable[P, R]:
    """`tf.custom_gradient` with types: f returns its value, and the function from d value to d arguments."""
    return cast(Callable[P, R], tf.custom_gradient(f))


class Initializers:
    """Keras initialisers that differ from weight to weight and depend on the case's seed only."""

    def __init__(self, seed: int) -> None:
        self._seed, self._made = seed, 0

    def next_seed(self) -> int:
        self._made += 1
        return int(random(self._seed, self._made).integers(2**31 - 1))

    def truncated_normal(self, stddev: float = 0.02) -> keras.initializers.Initializer:
        return keras.initializers.TruncatedNormal(stddev=stddev, seed=self.next_seed())

    def normal(self, stddev: float) -> keras.initializers.Initializer:
        return keras.initializers.RandomNormal(stddev=stddev, seed=self.next_seed())


def dense(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """[rows, inputs] x [inputs, outputs] + [outputs]."""
    return tf.nn.bias_add(tf.matmul(x, kernel), bias)


@with_gradient
def gelu(x: Tensor) -> tuple[Tensor, Gradient]:
    """x Phi(x) with the exact normal distribution function (Hendrycks and Gimpel, arXiv:1606.08415)."""
    dtype = x.dtype
    x = tf.cast(x, tf.float32)
    cdf = 0.5 * tf.math.erf(x * math.sqrt(0.5)) + 0.5

    def gradient(dy: Tensor) -> Tensor:
        density = tf.exp(-0.5 * tf.square(x)) * (1 / math.sqrt(2 * math.pi))
        return tf.cast(tf.cast(dy, tf.float32) * (cdf + x * density), dtype)

    return tf.cast(x * cdf, dtype), gradient


@with_gradient
def gelu_tanh(x: Tensor) -> tuple[Tensor, Gradient]:
    """The tanh approximation of GELU, written as x sigmoid(2u) = x (1 + tanh u) / 2, which needs fewer passes."""
    linear = 2 * math.sqrt(2 / math.pi)
    cubic = 0.044715 * linear
    dtype = x.dtype
    x = tf.cast(x, tf.float32)
    square = tf.square(x)
    gate = tf.sigmoid(x * (square * cubic + linear))

    def gradient(dy: Tensor) -> Tensor:
        slope = tf.raw_ops.SigmoidGrad(y=gate, dy=x * (square * (3 * cubic) + linear))
        return tf.cast(tf.cast(dy, tf.float32) * (gate + slope), dtype)

    return tf.cast(x * gate, dtype), gradient


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    """Layer normalisation of [rows, width] over the width (Ba et al., arXiv:1607.06450); float32 inside."""

    @with_gradient
    def normalise(x: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Gradient]:
        dtype = x.dtype
        x = tf.cast(x, tf.float32)
        mean = tf.reduce_mean(x, axis=1, keepdims=True)
        variance = tf.reduce_mean(tf.math.squared_difference(x, mean), axis=1, keepdims=True)
        scale = tf.math.rsqrt(variance + epsilon)
        normal = (x - mean) * scale

        def gradient(dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            dy = tf.cast(dy, tf.float32)
            product = dy * normal
            dnormal = dy * gamma
            # dx = scale (dn - mean(dn) - n mean(dn n)); dn n is gamma times the product that dgamma sums.
            centre = tf.reduce_mean(dnormal, axis=1, keepdims=True)
            slope = tf.reduce_mean(product * gamma, axis=1, keepdims=True)
            dx = (dnormal - (normal * slope + centre)) * scale
            return tf.cast(dx, dtype), _column_sums(product), _column_sums(dy)

        return tf.cast(tf.nn.bias_add(normal * gamma, beta), dtype), gradient

    return normalise(x, gamma, beta)


def _column_sums(x: Tensor) -> Tensor:
    # The kernel of BiasAddGrad sums [rows, width] over rows faster than the generic reduction.
    return tf.raw_ops.BiasAddGrad(out_backprop=x)


@with_gradient
def gather_rows(x: Tensor, rows: Tensor) -> tuple[Tensor, Gradient]:
    """x[rows] for x [n, width] and rows [m]; the gradient of x is dense."""

    def gradient(dy: Tensor) -> tuple[Tensor, None]:
        return tf.math.unsorted_segment_sum(dy, rows, x.shape[0]), None

    return tf.gather(x, rows), gradient


@with_gradient
def tied_lookup(table: Tensor, ids: Tensor) -> tuple[tuple[Tensor, Tensor], Gradient]:
    """(table[ids], table) for a table that the model uses again as a matrix, such as a tied decoder.

    Backward, the lookup's rows are added into the matrix' dense gradient in place. Left to itself TensorFlow makes a
    second dense gradient of the table's size from the looked-up rows and adds the two.
    """

    def gradient(drows: Tensor, dtable: Tensor) -> tuple[Tensor, None]:
        return tf.tensor_scatter_nd_add(dtable, ids[:, tf.newaxis], drows), None

    return (tf.gather(table, ids), tf.identity(table)), gradient


class Dropout:
    """Dropout of one step: a stateless mask a site, so that recomputation draws the same. No operations at rate 0."""

    def __init__(self, rate: float, training: bool) -> None:
        self._rate = rate if training else 0.0
        # The one stateful operation: it makes every step's masks differ.
        self._seed = tf.random.uniform([2], 0, 2**31 - 1, tf.int32) if self._rate else None

    def mask(self, site: int, shape: Any, dtype: Any) -> Tensor | None:
        """What to multiply an activation by: 0 with probability `rate`, else 1 / (1 - rate). None at rate 0."""
        if self._seed is None:
            return None
        # Four 16-bit draws from each random word: XLA works out a block of the generator anew for every word, which
        # made drawing a float for each element a tenth of a BERT step. The rate is met to 2^-17.
        draws = math.prod(shape)
        words = tf.random.stateless_uniform([-(-draws // 4)], tf.add(self._seed, [site, 0]), None, None, tf.uint64)
        bits = tf.reshape(tf.bitcast(words, tf.uint16), [-1])[:draws]
        kept = tf.reshape(bits, shape) >= tf.constant(round(self._rate * 2**16), tf.uint16)
        return tf.cast(kept, dtype) * tf.cast(1 / (1 - self._rate), dtype)

    def __call__(self, x: Tensor, site: int) -> Tensor:
        mask = self.mask(site, x.shape, x.dtype)
        return x if mask is None else _masked(x, mask)


@with_gradient
def _masked(x: Tensor, mask: Tensor) -> tuple[Tensor, Gradient]:
    return x * mask, lambda dy: (dy * mask, None)


def recompute(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`f(x, *weights)` (tensors in, one tensor out), keeping only its arguments and evaluated again in backward."""

    @with_gradient
    def recomputed(x: Tensor, *weights: Tensor) -> tuple[Tensor, Gradient]:
        def gradient(dy: Tensor) -> Any:
            # x must depend on dy, or the compiler merges the second evaluation with the first and keeps everything
            # alive. XLA drops control dependencies, so it is a data dependency; 0 x is not folded for floats.
            arrived = tf.cast(tf.reshape(dy, [-1])[0], x.dtype) * tf.zeros([], x.dtype)
            inputs = [x + arrived, *(tf.identity(weight) for weight in weights)]
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                y = f(*inputs)
            return tape.gradient(y, inputs, output_gradients=dy)

        return f(x, *weights), gradient

    return recomputed


class Dense(keras.layers.Layer):  # type: ignore[misc]
    """A dense layer on [rows, inputs], built at once."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: keras.initializers.Initializer,
        bias: Any = "zeros",
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.kernel = self.add_weight((inputs, outputs), kernel, name="kernel")
        self.bias = self.add_weight((outputs,), bias, name="bias")
        self.activation = activation
        self.built = True

    def call(self, x: Tensor) -> Tensor:
        y = dense(x, self.kernel.value, self.bias.value)
        return y if self.activation is None else self.activation(y)


class LayerNorm(keras.layers.Layer):  # type: ignore[misc]
    """Layer normalisation of [rows, width] with float32 weights."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.gamma = self.add_weight((width,), "ones", name="gamma", autocast=False)
        self.beta = self.add_weight((width,), "zeros", name="beta", autocast=False)
        self.epsilon = epsilon
        self.built = True

    def call(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.gamma.value, self.beta.value, self.epsilon)


def variables(*layers: keras.layers.Layer) -> list[Any]:
    """The trainable TensorFlow variables behind Keras layers, in the order of the layers and of their creation."""
    return [weight.value for layer in layers for weight in layer.trainable_variables]


def compute_dtype() -> tf.DType:
    """The compute dtype of the dtype policy in force."""
    return tf.as_dtype(keras.config.dtype_policy().compute_dtype)
