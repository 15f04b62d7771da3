"""The BERT pre-training model: embeddings, encoder, masked-LM head with a tied decoder, next-sentence head."""

from typing import Any

import tensorflow as tf

from tfscale.suite.workload import Batch, BuildContext
from tfscale.workloads.bert.spec import BertShape
from tfscale.workloads.layers import (
    Dense,
    Dropout,
    Initializers,
    LayerNorm,
    Tensor,
    compute_dtype,
    gather_rows,
    gelu_tanh,
    tied_lookup,
    variables,
)
from tfscale.workloads.transformer import Block

EPSILON = 1e-12
"""Of every layer normalisation, as in the published model."""


def build(shape: BertShape, context: BuildContext) -> "BertPretraining":
    return BertPretraining(shape, context)


class BertPretraining:
    """BERT with both pre-training heads; all weights exist once it is constructed."""

    def __init__(self, shape: BertShape, context: BuildContext) -> None:
        self.shape = shape
        self.dropout = shape.dropout if context.dropout is None else context.dropout
        self.compute_dtype = compute_dtype()
        init = Initializers(context.seed)
        h = shape.hidden
        self.tokens = _table("token_embedding", shape.vocabulary_size, h, init)
        self.positions = _table("position_embedding", shape.positions, h, init)
        self.segments = _table("segment_embedding", shape.segments, h, init)
        self.embedding_norm = LayerNorm(h, EPSILON)
        self.blocks = [
            Block(
                number, h, shape.heads, shape.intermediate, init,
                norm_first=False, epsilon=EPSILON, activation=gelu_tanh, recompute=context.recompute,
            )
            for number in range(shape.layers)
        ]  # fmt: skip
        self.mlm_transform = Dense(h, h, init.truncated_normal(), activation=gelu_tanh)
        self.mlm_norm = LayerNorm(h, EPSILON)
        self.mlm_bias = tf.Variable(tf.zeros([shape.vocabulary_size]), name="mlm_bias")
        self.pooler = Dense(h, h, init.truncated_normal(), activation=tf.tanh)
        self.next_sentence = Dense(h, 2, init.truncated_normal())
        self.variables = [
            self.tokens, self.positions, self.segments,
            *variables(self.embedding_norm, *self.blocks, self.mlm_transform, self.mlm_norm),
            self.mlm_bias,
            *variables(self.pooler, self.next_sentence),
        ]  # fmt: skip

    def loss(self, batch: Batch, training: bool) -> Tensor:
        """Masked-LM cross-entropy averaged over predictions of weight 1, plus the mean next-sentence cross-entropy."""
        mlm_logits, nsp_logits = self.logits(batch, training)
        mlm = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(batch["mlm_ids"], [-1]), mlm_logits)
        weights = tf.reshape(batch["mlm_weights"], [-1])
        # At least one in the denominator: a replica's share of the batch may hold no prediction at all.
        mlm_loss = tf.reduce_sum(mlm * weights) / tf.maximum(tf.reduce_sum(weights), 1.0)
        nsp = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["next_sentence"], nsp_logits)
        return mlm_loss + tf.reduce_mean(nsp)

    def logits(self, batch: Batch, training: bool) -> tuple[Tensor, Tensor]:
        """Masked-LM logits [batch * predictions, vocabulary] and next-sentence logits [batch, 2], float32."""
        length = self.shape.sequence_length
        x, table = self._encode(batch, training)
        starts = tf.range(0, x.shape[0], length)
        masked = tf.reshape(batch["mlm_positions"] + starts[:, tf.newaxis], [-1])
        # One gather for both heads: the encoder's output then has a single, dense gradient.
        picked = gather_rows(x, tf.concat([starts, masked], 0))
        first, masked_x = tf.split(picked, [starts.shape[0], masked.shape[0]])
        return self._mlm_logits(masked_x, table), tf.cast(self.next_sentence(self.pooler(first)), tf.float32)

    def _mlm_logits(self, x: Tensor, table: Tensor) -> Tensor:
        x = self.mlm_norm(self.mlm_transform(x))
        logits = tf.matmul(x, tf.cast(table, self.compute_dtype), transpose_b=True)
        return tf.nn.bias_add(tf.cast(logits, tf.float32), self.mlm_bias)

    def _encode(self, batch: Batch, training: bool) -> tuple[Tensor, Tensor]:
        """The encoder's output [batch * sequence, hidden] in the compute dtype, and the token table for the decoder."""
        dropout = Dropout(self.dropout, training)
        length = self.shape.sequence_length
        x, table = self._embed(batch)
        x = dropout(self.embedding_norm(tf.cast(x, self.compute_dtype)), 0)
        bias = _attention_bias(batch.get("padding_mask"))
        for block in self.blocks:
            x = block(x, length=length, dropout=dropout, bias=bias)
        return x, table

    def _embed(self, batch: Batch) -> tuple[Tensor, Tensor]:
        s = self.shape
        words, table = tied_lookup(tf.convert_to_tensor(self.tokens), tf.reshape(batch["token_ids"], [-1]))
        # Every (segment, position) pair's sum is one small table: one lookup and one addition instead of two of each.
        positions = tf.convert_to_tensor(self.positions)[: s.sequence_length]
        pairs = tf.convert_to_tensor(self.segments)[:, tf.newaxis] + positions
        rows = tf.reshape(batch["segment_ids"] * s.sequence_length + tf.range(s.sequence_length), [-1])
        return words + gather_rows(tf.reshape(pairs, [-1, s.hidden]), rows), table


def _table(name: str, rows: int, width: int, init: Initializers) -> tf.Variable:
    initializer = init.truncated_normal()
    return tf.Variable(lambda: initializer((rows, width), "float32"), name=name)


def _attention_bias(padding_mask: Any) -> Tensor | None:
    """[batch, 1, 1, length] for a mask [batch, length] that is 1 on real tokens: 0 there, -30000 on padding.

    That is still finite in float16, to which Keras casts a layer's arguments, and its exponential is 0.
    """
    if padding_mask is None:
        return None
    return (tf.cast(padding_mask, tf.float32)[:, tf.newaxis, tf.newaxis] - 1.0) * 3e4
