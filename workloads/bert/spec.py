"""BERT pre-training (masked language model and next sentence): shapes, parameters and synthetic data.

Devlin et al., arXiv:1810.04805. The decoder of the masked language model is tied to the token embedding.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfscale.suite.workload import Feature, Flops, OptimizerSpec
from tfscale.workloads import presets
from tfscale.workloads.bert import flops
from tfscale.workloads.standard import StandardWorkload

if TYPE_CHECKING:
    from numpy.typing import NDArray

MASK_TOKEN = 103
FIRST_WORD = 999
"""Lower ids of the published vocabulary are special and unused tokens."""


@dataclass(frozen=True)
class BertShape:
    """Sizes of one preset. `positions` is the position table's length; `sequence_length` is what is trained on."""

    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocabulary_size: int
    positions: int
    segments: int
    sequence_length: int
    predictions: int
    dropout: float


class Bert(StandardWorkload):
    """BERT pre-training as a workload."""

    name = "bert"
    sample = "sequence"
    model_module = "tfscale.workloads.bert.model"
    data_module = "tfscale.workloads.bert.data"
    presets: Mapping[str, BertShape] = presets.read(__file__, BertShape)
    optimizer = OptimizerSpec("adamw", 1e-4, {"weight_decay": 0.01}, clip_global_norm=1.0)

    def parameters(self, preset: str) -> int:
        s: BertShape = self.shape(preset)
        h, norm = s.hidden, 2 * s.hidden
        embeddings = (s.vocabulary_size + s.positions + s.segments) * h + norm
        block = 4 * (h * h + h) + (h * s.intermediate + s.intermediate) + (s.intermediate * h + h) + 2 * norm
        masked_lm = (h * h + h) + norm + s.vocabulary_size
        next_sentence = (h * h + h) + (2 * h + 2)
        return embeddings + s.layers * block + masked_lm + next_sentence

    def flops(self, preset: str, batch: int) -> Flops:
        return flops.training_step(self.shape(preset), batch)

    def features(self, preset: str) -> dict[str, Feature]:
        """`padding_mask` is 1 on real tokens, 0 on padding; `mlm_positions` are indices into the sequence.

        `mlm_weights` is 1.0 for a real prediction and 0.0 for a filler; `next_sentence` is 1 where the second sentence
        is a random one, as in the published data.
        """
        s: BertShape = self.shape(preset)
        return {
            "token_ids": Feature((s.sequence_length,), "int32"),
            "segment_ids": Feature((s.sequence_length,), "int32"),
            "padding_mask": Feature((s.sequence_length,), "int32"),
            "mlm_positions": Feature((s.predictions,), "int32"),
            "mlm_ids": Feature((s.predictions,), "int32"),
            "mlm_weights": Feature((s.predictions,), "float32"),
            "next_sentence": Feature((), "int32"),
        }

    def synthetic(
        self, preset: str, *, seed: int, index: int, batch: int, options: Mapping[str, Any]
    ) -> "dict[str, NDArray[Any]]":
        from tfscale.workloads.bert.synthetic import global_batch

        return global_batch(self.shape(preset), seed, index, batch)


BERT = Bert()
