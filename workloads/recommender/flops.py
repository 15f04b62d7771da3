"""Analytic FLOPs of one DLRM training step."""

from typing import TYPE_CHECKING

from tfscale.suite.workload import Flops
from tfscale.workloads.matmul_flops import add, dense, matmul

if TYPE_CHECKING:
    from tfscale.workloads.recommender.spec import RecommenderShape


def training_step(shape: "RecommenderShape", batch: int) -> Flops:
    """Forward and backward on `batch` samples; lookups count nothing, and the first bottom layer reads data.

    The interaction computes all vectors x vectors products, though half of them are used, and its gradient is one
    product of the same size, since the gradient of z z^T is (G + G^T) z.
    """
    interaction = matmul(shape.vectors, shape.width, shape.vectors, batch)
    return add(
        *(dense(batch, *layer, input_gradient=number > 0) for number, layer in enumerate(shape.bottom_layers)),
        Flops(forward=interaction, backward=interaction),
        *(dense(batch, *layer) for layer in shape.top_layers),
    )
