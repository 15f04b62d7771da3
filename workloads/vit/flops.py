"""Analytic FLOPs of one Vision Transformer training step."""

from typing import TYPE_CHECKING

from tfscale.suite.workload import Flops
from tfscale.workloads.matmul_flops import add, dense, encoder_block, repeat

if TYPE_CHECKING:
    from tfscale.workloads.vit.spec import VitShape


def training_step(shape: "VitShape", batch: int) -> Flops:
    """Forward and backward on `batch` images; the patch embedding reads data and needs no input gradient."""
    return add(
        dense(batch * shape.patches, shape.patch_values, shape.hidden, input_gradient=False),
        repeat(shape.layers, encoder_block(batch, shape.tokens, shape.hidden, shape.heads, shape.intermediate)),
        dense(batch, shape.hidden, shape.classes),
    )
