"""DLRM click prediction with dot interaction: shapes, parameters and synthetic data.

Naumov et al., arXiv:1906.00091.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.workload import Feature, Flops, OptimizerSpec, Workload, random
from tfscale.workloads import presets
from tfscale.workloads.recommender import flops

ZIPF_EXPONENT = 1.05
_SCATTER = 2654435761
"""A prime above every table size: multiplying by it modulo the size permutes a table's rows."""
_TEACHER, _TEACHER_ROWS = 1, 64


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


class Recommender(Workload):
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
    ) -> dict[str, NDArray[Any]]:
        """Raises ValueError for an unknown `options["index"]`."""
        s: RecommenderShape = self.shape(preset)
        rng = random(seed, index)
        dense = rng.standard_normal((batch, s.dense), np.float32)
        indices = _indices(rng.random((batch, len(s.tables))), s.tables, options.get("index", "uniform"))
        return {"dense": dense, "indices": indices, "label": _labels(dense, indices, seed)}


def _indices(uniform: NDArray[np.float64], tables: tuple[int, ...], distribution: str) -> NDArray[np.int32]:
    """Row numbers [batch, tables] from uniform variates, each table by its own size, through the inverse CDF.

    zipf: P(rank k) is the share of [k, k + 1) under the density x^-s on [1, n + 1) with s = ZIPF_EXPONENT,
    which is close to k^-s / sum and needs no table of n sums. Ranks are scattered over the table, as hashing scatters
    popular categories.
    """
    n = np.asarray(tables, np.int64)
    if distribution == "uniform":
        return np.minimum(uniform * n, n - 1).astype(np.int32)
    if distribution != "zipf":
        raise ValueError(f"index distribution {distribution!r} is not known (known: uniform, zipf)")
    power = 1.0 - ZIPF_EXPONENT
    x = (1.0 + uniform * ((n + 1.0) ** power - 1.0)) ** (1.0 / power)
    rank = np.minimum(x.astype(np.int64) - 1, n - 1)
    return (rank * _SCATTER % n).astype(np.int32)


@lru_cache(maxsize=8)
def _teacher(seed: int, dense: int, tables: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    rng = random(seed, 0, _TEACHER)
    rows = rng.standard_normal((tables, _TEACHER_ROWS), np.float32)
    return rng.standard_normal(dense, np.float32), rows - rows.mean(axis=1, keepdims=True)


def _labels(dense: NDArray[np.float32], indices: NDArray[np.int32], seed: int) -> NDArray[np.float32]:
    """1.0 where a linear function of the dense columns and of a fixed number for each row (modulo 64) is positive."""
    weights, rows = _teacher(seed, dense.shape[1], indices.shape[1])
    scores = dense @ weights + rows[np.arange(indices.shape[1]), indices % _TEACHER_ROWS].sum(axis=1)
    return np.asarray(scores > 0, np.float32)


RECOMMENDER = Recommender(OptimizerSpec("sgd", 0.1))


def adagrad() -> Recommender:
    """The same workload under Adagrad: `workload: tfscale.workloads.recommender.spec:adagrad`."""
    return Recommender(OptimizerSpec("adagrad", 0.01))
