"""Synthetic clicks: rows by a named index distribution, labels by a fixed random teacher."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.workload import random
from tfscale.workloads.recommender.spec import RecommenderShape

ZIPF_EXPONENT = 1.05
_SCATTER = 2654435761
"""A prime above every table size: multiplying by it modulo the size permutes a table's rows."""
_TEACHER, _TEACHER_ROWS = 1, 64


def global_batch(s: RecommenderShape, seed: int, index: int, batch: int, distribution: str) -> dict[str, NDArray[Any]]:
    """Global batch number `index`, features as the spec names them. Raises ValueError for an unknown distribution."""
    rng = random(seed, index)
    dense = rng.standard_normal((batch, s.dense), np.float32)
    indices = _indices(rng.random((batch, len(s.tables))), s.tables, distribution)
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
