"""A tiny deterministic workload: a dense model and an embedding as a raw variable, so that sparse gradients occur."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfscale.suite.workload import Feature, Flops, OptimizerSpec, Workload, random


@dataclass(frozen=True)
class ToyShape:
    rows: int = 12
    width: int = 4
    hidden: int = 8
    pool: int = 1


class Toy(Workload):
    """Regression of a fixed function of an embedding and four numbers. Indices repeat within a batch."""

    name = "toy"
    sample = "sample"
    data_module = "toy_model"
    presets: Mapping[str, ToyShape] = {
        "tiny": ToyShape(),
        "pool": ToyShape(pool=8),
        "wide": ToyShape(width=64, hidden=2048),
    }

    def __init__(self, optimizer: OptimizerSpec, model_module: str = "toy_model") -> None:
        self.optimizer = optimizer
        self.model_module = model_module

    def parameters(self, preset: str) -> int:
        s = self.presets[preset]
        return s.rows * s.width + (s.width + 4) * s.hidden + s.hidden + s.hidden + 1

    def flops(self, preset: str, batch: int) -> Flops:
        s = self.presets[preset]
        forward = 2 * batch * ((s.width + 4) * s.hidden + s.hidden)
        return Flops(forward, 2 * forward)

    def features(self, preset: str) -> dict[str, Feature]:
        return {"number": Feature((4,), "float32"), "row": Feature((2,), "int32"), "label": Feature((), "float32")}

    def synthetic(
        self, preset: str, *, seed: int, index: int, batch: int, options: Mapping[str, Any]
    ) -> dict[str, np.ndarray[Any, Any]]:
        generator = random(seed, index)
        number = generator.normal(size=(batch, 4)).astype(np.float32)
        row = generator.integers(0, self.presets[preset].rows, size=(batch, 2)).astype(np.int32)
        return {"number": number, "row": row, "label": (number.sum(1) + 0.1 * row.sum(1)).astype(np.float32)}

    def synthetic_pool(self, preset: str) -> int:
        return self.presets[preset].pool


SGD = Toy(OptimizerSpec("sgd", 0.05))
GENTLE = Toy(OptimizerSpec("sgd", 5e-4))
"""For `wide`, which diverges under SGD at 0.05."""
ADAGRAD = Toy(OptimizerSpec("adagrad", 0.05))
ADAMW = Toy(OptimizerSpec("adamw", 0.01, {"weight_decay": 0.01}, clip_global_norm=1.0))
LOUD = Toy(OptimizerSpec("sgd", 0.0), "toy_loud")
HUGE = Toy(OptimizerSpec("sgd", 0.05), "toy_huge")
DYNAMIC = Toy(OptimizerSpec("sgd", 0.05), "toy_dynamic")
