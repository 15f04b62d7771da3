"""A transformer encoder block with one fused projection, for BERT (normalise after) and ViT (normalise before)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfscale.workloads.layers import (
    Dropout,
    Gradient,
    Initializers,
    Tensor,
    dense,
    layer_norm,
    recompute,
    with_gradient,
)

DROPOUT_SITES = 3
"""Dropout masks a block draws."""


def attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, keep: Tensor | None) -> Tensor:
    """softmax(q k^T / sqrt(d) + bias) v on [batch, heads, length, d], with `keep` multiplied into the probabilities.

    Backward uses sum_j dP_ij P_ij = dO_i . O_i (Dao et al., arXiv:2205.14135), which reads [length, d] instead of
    [length, length], and holds with dropout too.
    """

    @with_gradient
    def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Gradient]:
        scale = tf.cast(q.shape[-1] ** -0.5, q.dtype)
        q = q * scale
        scores = tf.cast(tf.matmul(q, k, transpose_b=True), tf.float32)
        if bias is not None:
            scores += tf.cast(bias, tf.float32)
        probabilities = tf.cast(tf.nn.softmax(scores), q.dtype)
        kept = probabilities if keep is None else probabilities * keep
        context = tf.matmul(kept, v)

        def gradient(dcontext: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            dv = tf.matmul(kept, dcontext, transpose_a=True)
            dprobabilities = tf.matmul(dcontext, v, transpose_b=True)
            if keep is not None:
                dprobabilities *= keep
            dscores = (dprobabilities - tf.reduce_sum(dcontext * context, axis=-1, keepdims=True)) * probabilities
            return tf.matmul(dscores, k) * scale, tf.matmul(dscores, q, transpose_a=True), dv

        return context, gradient

    return attend(q, k, v)


class BlockWeights(NamedTuple):
    """The weights of a block in the order in which it creates them."""

    qkv_kernel: Any
    qkv_bias: Any
    out_kernel: Any
    out_bias: Any
    norm1_gamma: Any
    norm1_beta: Any
    up_kernel: Any
    up_bias: Any
    down_kernel: Any
    down_bias: Any
    norm2_gamma: Any
    norm2_beta: Any


class Block(keras.layers.Layer):  # type: ignore[misc]
    """Self-attention and a two-layer MLP, each with a residual connection and a layer normalisation.

    `norm_first` normalises what goes into each branch (ViT), else what comes out of each sum (BERT).
    """

    def __init__(
        self,
        number: int,
        hidden: int,
        heads: int,
        intermediate: int,
        init: Initializers,
        *,
        norm_first: bool,
        epsilon: float,
        activation: Callable[[Tensor], Tensor],
        recompute: bool,
    ) -> None:
        super().__init__()
        self.heads, self.norm_first, self.epsilon = heads, norm_first, epsilon
        self.activation, self.recompute = activation, recompute
        self.first_site = 1 + number * DROPOUT_SITES
        self.weights_in_order = BlockWeights(
            *self._dense("qkv", hidden, 3 * hidden, init),
            *self._dense("out", hidden, hidden, init),
            *self._norm("norm1", hidden),
            *self._dense("up", hidden, intermediate, init),
            *self._dense("down", intermediate, hidden, init),
            *self._norm("norm2", hidden),
        )
        self.built = True

    def _dense(self, name: str, inputs: int, outputs: int, init: Initializers) -> tuple[Any, Any]:
        kernel = self.add_weight((inputs, outputs), init.truncated_normal(), name=f"{name}_kernel")
        return kernel, self.add_weight((outputs,), "zeros", name=f"{name}_bias")

    def _norm(self, name: str, width: int) -> tuple[Any, Any]:
        gamma = self.add_weight((width,), "ones", name=f"{name}_gamma", autocast=False)
        return gamma, self.add_weight((width,), "zeros", name=f"{name}_beta", autocast=False)

    def call(self, x: Tensor, *, length: int, dropout: Dropout, bias: Tensor | None = None) -> Tensor:
        """x: [batch * length, hidden]; bias: added to the scores, broadcast to [batch, heads, length, length]."""

        def forward(x: Tensor, *weights: Tensor) -> Tensor:
            return self._forward(x, BlockWeights(*weights), length, dropout, bias)

        # Weights are arguments, so that their casts are not recomputed and no variable hides in the closure.
        weights = [tf.convert_to_tensor(weight.value) for weight in self.weights_in_order]
        return (recompute(forward) if self.recompute else forward)(x, *weights)

    def _forward(self, x: Tensor, w: BlockWeights, length: int, dropout: Dropout, bias: Tensor | None) -> Tensor:
        attended = self._attend(self._norm1(x, w) if self.norm_first else x, w, length, dropout, bias)
        x = x + dropout(attended, self.first_site + 1)
        if not self.norm_first:
            x = self._norm1(x, w)
        y = layer_norm(x, w.norm2_gamma, w.norm2_beta, self.epsilon) if self.norm_first else x
        y = dense(self.activation(dense(y, w.up_kernel, w.up_bias)), w.down_kernel, w.down_bias)
        x = x + dropout(y, self.first_site + 2)
        return x if self.norm_first else layer_norm(x, w.norm2_gamma, w.norm2_beta, self.epsilon)

    def _norm1(self, x: Tensor, w: BlockWeights) -> Tensor:
        return layer_norm(x, w.norm1_gamma, w.norm1_beta, self.epsilon)

    def _attend(self, x: Tensor, w: BlockWeights, length: int, dropout: Dropout, bias: Tensor | None) -> Tensor:
        hidden = x.shape[-1]
        batch = x.shape[0] // length
        qkv = tf.reshape(dense(x, w.qkv_kernel, w.qkv_bias), [batch, length, 3, self.heads, hidden // self.heads])
        q, k, v = tf.unstack(tf.transpose(qkv, [2, 0, 3, 1, 4]))
        keep = dropout.mask(self.first_site, [batch, self.heads, length, length], x.dtype)
        context = attention(q, k, v, bias, keep)
        context = tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [batch * length, hidden])
        return dense(context, w.out_kernel, w.out_bias)
