"""Analytic FLOPs of one BERT pre-training step."""

from typing import TYPE_CHECKING

from tfscale.suite.workload import Flops
from tfscale.workloads.matmul_flops import add, dense, encoder_block, repeat

if TYPE_CHECKING:
    from tfscale.workloads.bert.spec import BertShape


def training_step(shape: "BertShape", batch: int) -> Flops:
    """Forward and backward on `batch` sequences; embedding lookups are gathers and count nothing."""
    predictions = batch * shape.predictions
    return add(
        repeat(
            shape.layers, encoder_block(batch, shape.sequence_length, shape.hidden, shape.heads, shape.intermediate)
        ),
        dense(predictions, shape.hidden, shape.hidden),
        dense(predictions, shape.hidden, shape.vocabulary_size),
        dense(batch, shape.hidden, shape.hidden),
        dense(batch, shape.hidden, 2),
    )
