"""The toy model with a loss so large that float16 gradients overflow at first."""

from typing import Any

from toy_model import ToyModel
from toy_workload import ToyShape

from tfscale.suite.workload import BuildContext


class Loud(ToyModel):
    def loss(self, batch: dict[str, Any], training: bool) -> Any:
        return super().loss(batch, training) * 100.0


def build(shape: ToyShape, context: BuildContext) -> Loud:
    return Loud(shape, context)
