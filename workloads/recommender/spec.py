"""DLRM click prediction with dot interaction: shapes, parameters and synthetic data.

Naumov et al., arXiv:1906.00091.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfscale.suite.workload import Feature, Flops, OptimizerSpec
from tfscale.workloads import presets
from tfscale.workloads.recommender import flops
from tfscale.workloads.standard import StandardWorkload

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class RecommenderShape:
    """Sizes of one preset. `bottom`, `top`: layer widths of the MLPs; bottom ends in `width`, top in 1."""

    dense: int
    cardinalities: tuple[int, ...]
    max_rows: int
    width: int
    bottom: tuple[int, ...]
    top: tuple[int, ...]

    @property
    def tables(self) -> tuple[int, ...]:
        """Rows of each embedding table."""
        return tuple(min(cardinality, self.max_rows) for cardinality in self.cardinalities)

    @property
    def vectors(self) -> int:
        """What the interaction multiplies pairwise: the bottom MLP's output and one row of each table."""
        return 1 + len(self.cardinalities)

    @property
    def bottom_layers(self) -> list[tuple[int, int]]:
        """(inputs, outputs) of each layer of the bottom MLP."""
        return list(zip((self.dense, *self.bottom[:-1]), self.bottom, strict=True))

    @property
    def top_layers(self) -> list[tuple[int, int]]:
        """(inputs, outputs) of each layer of the top MLP, which reads the bottom's output and all pairs' products."""
        inputs = self.width + self.vectors * (self.vectors - 1) // 2
        return list(zip((inputs, *self.top[:-1]), self.top, strict=True))


class Recommender(StandardWorkload):
    """DLRM training as a workload. Option `index` of synthetic input: `uniform` (default) or `zipf`."""

    name = "recommender"
    sample = "sample"
    model_module = "tfscale.workloads.recommender.model"
    data_module = "tfscale.workloads.recommender.data"
    presets: Mapping[str, RecommenderShape] = presets.read(__file__, RecommenderShape)

    def __init__(self, optimizer: OptimizerSpec) -> None:
        self.optimizer = optimizer

    def parameters(self, preset: str) -> int:
        s: RecommenderShape = self.shape(preset)
        layers = s.bottom_layers + s.top_layers
        return sum(s.tables) * s.width + sum(inputs * outputs + outputs for inputs, outputs in layers)

    def flops(self, preset: str, batch: int) -> Flops:
        return flops.training_step(self.shape(preset), batch)

    def features(self, preset: str) -> dict[str, Feature]:
        """`dense`: the numeric columns; `indices`: one row number for each table; `label`: 1.0 for a click."""
        s: RecommenderShape = self.shape(preset)
        return {
            "dense": Feature((s.dense,), "float32"),
            "indices": Feature((len(s.tables),), "int32"),
            "label": Feature((), "float32"),
        }

    def synthetic_pool(self, preset: str) -> int:
        """Rows that one cached batch looks up stay in the processor's caches, which makes the lookup too fast."""
        return 256

    def synthetic(
        self, preset: str, *, seed: int, index: int, batch: int, options: Mapping[str, Any]
    ) -> "dict[str, NDArray[Any]]":
        """Raises ValueError for an unknown `options["index"]`."""
        from tfscale.workloads.recommender.synthetic import global_batch

        return global_batch(self.shape(preset), seed, index, batch, options.get("index", "uniform"))


RECOMMENDER = Recommender(OptimizerSpec("sgd", 0.1))


def adagrad() -> Recommender:
    """The same workload under Adagrad: `workload: tfscale.workloads.recommender.spec:adagrad`."""
    return Recommender(OptimizerSpec("adagrad", 0.01))
