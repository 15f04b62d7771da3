"""The Vision Transformer: patch embedding, class token, encoder, classification head."""

import tensorflow as tf

from tfscale.suite.workload import Batch, BuildContext
from tfscale.workloads.layers import Dense, Dropout, Initializers, LayerNorm, Tensor, compute_dtype, gelu, variables
from tfscale.workloads.transformer import Block
from tfscale.workloads.vit.spec import VitShape

EPSILON = 1e-6
"""Of every layer normalisation, as in the published model."""


def build(shape: VitShape, context: BuildContext) -> "VisionTransformer":
    return VisionTransformer(shape, context)


class VisionTransformer:
    """ViT with a class token; all weights exist once it is constructed."""

    def __init__(self, shape: VitShape, context: BuildContext) -> None:
        self.shape = shape
        self.dropout = shape.dropout if context.dropout is None else context.dropout
        self.compute_dtype = compute_dtype()
        init = Initializers(context.seed)
        h = shape.hidden
        self.patch_embedding = Dense(shape.patch_values, h, init.truncated_normal())
        self.class_token = _weight("class_token", (1, h), init)
        self.positions = _weight("position_embedding", (shape.tokens, h), init)
        self.blocks = [
            Block(
                number, h, shape.heads, shape.intermediate, init,
                norm_first=True, epsilon=EPSILON, activation=gelu, recompute=context.recompute,
            )
            for number in range(shape.layers)
        ]  # fmt: skip
        self.norm = LayerNorm(h, EPSILON)
        self.head = Dense(h, shape.classes, init.truncated_normal())
        self.variables = [
            *variables(self.patch_embedding), self.class_token, self.positions,
            *variables(*self.blocks, self.norm, self.head),
        ]  # fmt: skip

    def loss(self, batch: Batch, training: bool) -> Tensor:
        """Mean softmax cross-entropy."""
        logits = self.logits(batch, training)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits))

    def logits(self, batch: Batch, training: bool) -> Tensor:
        """[batch, classes], float32."""
        s = self.shape
        dropout = Dropout(self.dropout, training)
        x = dropout(tf.reshape(self._embed(batch["image"]), [-1, s.hidden]), 0)
        for block in self.blocks:
            x = block(x, length=s.tokens, dropout=dropout)
        # Normalisation works row by row, so only the class token's row needs the last one.
        first = tf.reshape(x, [-1, s.tokens, s.hidden])[:, 0]
        return tf.cast(self.head(self.norm(first)), tf.float32)

    def _embed(self, image: Tensor) -> Tensor:
        """[batch, tokens, hidden]: the class token, then the patches row by row, each with its position added."""
        s = self.shape
        patches = tf.reshape(self.patch_embedding(self._patches(image)), [-1, s.patches, s.hidden])
        positions = tf.cast(self.positions, self.compute_dtype)
        first = tf.cast(self.class_token, self.compute_dtype) + positions[:1]
        first = tf.broadcast_to(first, [patches.shape[0], 1, s.hidden])
        return tf.concat([first, patches + positions[1:]], axis=1)

    def _patches(self, image: Tensor) -> Tensor:
        """[batch, side, side, channels] -> [batch * patches, patch * patch * channels].

        A convolution with stride = kernel size is a matmul on these rows, with the same weights in the same order.
        """
        s = self.shape
        side = s.image_size // s.patch_size
        x = tf.reshape(tf.cast(image, self.compute_dtype), [-1, side, s.patch_size, side, s.patch_size * s.channels])
        return tf.reshape(tf.transpose(x, [0, 1, 3, 2, 4]), [-1, s.patch_values])


def _weight(name: str, shape: tuple[int, int], init: Initializers) -> tf.Variable:
    initializer = init.truncated_normal()
    return tf.Variable(lambda: initializer(shape, "float32"), name=name)
