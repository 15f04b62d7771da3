"""keras-hub's own BERT and ViT, configured to the mathematics of ours, and our weights copied into them.

Nothing of theirs is replaced: the backbones, the masked-LM head and the classifier are keras-hub's. keras-hub has no
next-sentence head, so a Keras Dense on the pooled output is it. Settings that differ from keras-hub's defaults are the
normalisation epsilon and the activation of the masked-LM head (1e-5 and exact GELU there, the encoder's in ours).
"""

from collections.abc import Mapping
from typing import Any

import keras
import keras_hub
import numpy as np
from keras_hub.src.utils.keras_utils import gelu_approximate

from tfscale.suite.workload import OptimizerSpec, Workload
from tfscale.workloads.bert.spec import BertShape
from tfscale.workloads.vit.spec import VitShape

Arrays = Mapping[str, Any]


def optimizer(spec: OptimizerSpec) -> keras.optimizers.Optimizer:
    """Keras' AdamW at our rate, decay and clipping."""
    return keras.optimizers.AdamW(spec.learning_rate, global_clipnorm=spec.clip_global_norm, **spec.hyper)


def cross_entropy() -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class Bert:
    """Pre-training with keras-hub's BertBackbone and MaskedLMHead."""

    @staticmethod
    def model(s: BertShape, dropout: float) -> keras.Model:
        backbone = keras_hub.models.BertBackbone(
            s.vocabulary_size, s.layers, s.heads, s.hidden, s.intermediate,
            dropout=dropout, max_sequence_length=s.positions, num_segments=s.segments,
        )  # fmt: skip
        head = keras_hub.layers.MaskedLMHead(
            token_embedding=backbone.token_embedding,
            intermediate_activation=gelu_approximate,
            layer_norm_epsilon=1e-12,
            name="mlm",
        )
        positions = keras.Input((None,), dtype="int32", name="mask_positions")
        out = backbone(backbone.input)
        next_sentence = keras.layers.Dense(2, name="next_sentence")
        outputs = {
            "mlm": head(out["sequence_output"], positions),
            "next_sentence": next_sentence(out["pooled_output"]),
        }
        return keras.Model({**backbone.input, "mask_positions": positions}, outputs)

    @staticmethod
    def losses() -> dict[str, keras.losses.Loss]:
        return {"mlm": cross_entropy(), "next_sentence": cross_entropy()}

    @staticmethod
    def batch(ours: Arrays) -> tuple[dict[str, Any], dict[str, Any]]:
        """The same batch under their names. Prediction weights are all 1 in it and stay away: less work for them."""
        if not np.all(ours["mlm_weights"] == 1):
            raise ValueError("the comparison needs a batch without filler predictions")
        names = ("token_ids", "segment_ids", "padding_mask")
        features = {**{name: ours[name] for name in names}, "mask_positions": ours["mlm_positions"]}
        return features, {"mlm": ours["mlm_ids"], "next_sentence": ours["next_sentence"]}

    @staticmethod
    def copy(ours: Any, theirs: keras.Model) -> None:
        backbone = next(layer for layer in theirs.layers if isinstance(layer, keras_hub.models.BertBackbone))
        head = theirs.get_layer("mlm")
        backbone.token_embedding.embeddings.assign(ours.tokens)
        backbone.position_embedding.position_embeddings.assign(ours.positions)
        backbone.segment_embedding.embeddings.assign(ours.segments)
        copy_norm(ours.embedding_norm, backbone.embeddings_layer_norm)
        for block, layer in zip(ours.blocks, backbone.transformer_layers, strict=True):
            w = block.weights_in_order
            copy_attention(w, block.heads, layer._self_attention_layer)
            assign(layer._self_attention_layer_norm, w.norm1_gamma, w.norm1_beta)
            assign(layer._feedforward_intermediate_dense, w.up_kernel, w.up_bias)
            assign(layer._feedforward_output_dense, w.down_kernel, w.down_bias)
            assign(layer._feedforward_layer_norm, w.norm2_gamma, w.norm2_beta)
        copy_dense(ours.mlm_transform, head._intermediate_dense)
        copy_norm(ours.mlm_norm, head._intermediate_layer_norm)
        head._bias.assign(ours.mlm_bias)
        copy_dense(ours.pooler, backbone.pooled_dense)
        copy_dense(ours.next_sentence, theirs.get_layer("next_sentence"))


class Vit:
    """Classification with keras-hub's ViTBackbone and ViTImageClassifier."""

    @staticmethod
    def model(s: VitShape, dropout: float) -> keras.Model:
        backbone = keras_hub.models.ViTBackbone(
            (s.image_size, s.image_size, s.channels), s.patch_size, s.layers, s.heads, s.hidden, s.intermediate,
            dropout_rate=dropout, attention_dropout=dropout, layer_norm_epsilon=1e-6,
        )  # fmt: skip
        return keras_hub.models.ViTImageClassifier(backbone, s.classes)

    @staticmethod
    def losses() -> keras.losses.Loss:
        return cross_entropy()

    @staticmethod
    def batch(ours: Arrays) -> tuple[Any, Any]:
        return ours["image"], ours["label"]

    @staticmethod
    def copy(ours: Any, theirs: keras.Model) -> None:
        backbone = theirs.backbone
        embedding = backbone.get_layer("vit_patching_and_embedding")
        encoder = backbone.get_layer("vit_encoder")
        kernel = embedding.patch_embedding.kernel
        kernel.assign(np.reshape(ours.patch_embedding.kernel, kernel.shape))
        embedding.patch_embedding.bias.assign(ours.patch_embedding.bias)
        embedding.class_token.assign(np.reshape(ours.class_token, embedding.class_token.shape))
        embedding.position_embedding.embeddings.assign(ours.positions)
        for block, layer in zip(ours.blocks, encoder.encoder_layers, strict=True):
            w = block.weights_in_order
            assign(layer.layer_norm_1, w.norm1_gamma, w.norm1_beta)
            copy_attention(w, block.heads, layer.mha)
            assign(layer.layer_norm_2, w.norm2_gamma, w.norm2_beta)
            assign(layer.mlp.dense_1, w.up_kernel, w.up_bias)
            assign(layer.mlp.dense_2, w.down_kernel, w.down_bias)
        copy_norm(ours.norm, encoder.layer_norm)
        copy_dense(ours.head, theirs.get_layer("predictions"))


PEERS: dict[str, Any] = {"bert": Bert, "vit": Vit}


def assign(layer: keras.layers.Layer, *values: Any) -> None:
    """Weights of `layer` in the order of their creation."""
    for weight, value in zip(layer.trainable_variables, values, strict=True):
        weight.assign(value)


def copy_dense(ours: Any, theirs: keras.layers.Layer) -> None:
    assign(theirs, ours.kernel, ours.bias)


def copy_norm(ours: Any, theirs: keras.layers.Layer) -> None:
    assign(theirs, ours.gamma, ours.beta)


def copy_attention(w: Any, heads: int, theirs: keras.layers.MultiHeadAttention) -> None:
    """Our one kernel [hidden, 3 hidden] and bias, columns q then k then v, into their three; [hidden, heads, size]."""
    hidden = int(w.out_kernel.shape[0])
    size = hidden // heads
    kernels = np.split(np.asarray(w.qkv_kernel), 3, axis=1)
    biases = np.split(np.asarray(w.qkv_bias), 3)
    named = (theirs.query_dense, theirs.key_dense, theirs.value_dense)
    for layer, kernel, bias in zip(named, kernels, biases, strict=True):
        assign(layer, kernel.reshape(hidden, heads, size), bias.reshape(heads, size))
    assign(theirs.output_dense, np.reshape(w.out_kernel, (heads, size, hidden)), w.out_bias)


def build(workload: Workload, preset: str, dropout: float | None, compiled: bool) -> keras.Model:
    """Their model for our preset, compiled for `fit`."""
    shape = workload.shape(preset)
    peer = PEERS[workload.name]
    model: keras.Model = peer.model(shape, shape.dropout if dropout is None else dropout)
    model.compile(optimizer=optimizer(workload.optimizer), loss=peer.losses(), jit_compile=compiled)
    return model
