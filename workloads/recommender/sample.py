"""A seeded click log in Criteo's format: skewed categories, missing values, a label that the fields explain in part."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.workload import random
from tfscale.workloads.recommender.source import CATEGORICAL, DENSE

ROWS = 16384
FILE = "clicks.tsv"
_MISSING_DENSE, _MISSING_CATEGORY = 0.2, 0.1
_SHIFT = -1.5
"""Brings the share of clicks near the quarter that click logs show."""


def write_source(shape: Any, directory: Path, seed: int) -> Path:
    """Write ROWS lines to `clicks.tsv` in `directory` and return its path."""
    draw = random(seed, 30)
    sizes = np.geomspace(4, 50_000, CATEGORICAL).astype(int)[draw.permutation(CATEGORICAL)]
    ranks = np.floor(np.exp(draw.random((ROWS, CATEGORICAL)) * np.log(sizes))).astype(np.uint32)
    dense = np.floor(draw.lognormal(1.5, 1.5, (ROWS, DENSE))).astype(np.int64)
    label = (draw.random(ROWS) < _click_probability(ranks, dense, draw)).astype(int)
    hashes = (ranks + np.arange(CATEGORICAL, dtype=np.uint32) * np.uint32(0x9E3779B9)) * np.uint32(0x85EBCA6B)
    hashes ^= hashes >> np.uint32(15)
    dense_missing = draw.random(dense.shape) < _MISSING_DENSE
    category_missing = draw.random(ranks.shape) < _MISSING_CATEGORY
    columns = [label.astype(str), *np.where(dense_missing, "", dense.astype(str)).T]
    columns += [_hexadecimal(values, missing) for values, missing in zip(hashes.T, category_missing.T, strict=True)]
    (directory / FILE).write_text("".join("\t".join(row) + "\n" for row in zip(*columns, strict=True)))
    return directory / FILE


def _click_probability(ranks: NDArray[Any], dense: NDArray[Any], draw: np.random.Generator) -> NDArray[np.float64]:
    """Logistic in the logarithms of the integers and in an effect of each value of the categories."""
    score = np.log1p(dense) @ draw.normal(0, 0.25, DENSE)
    for values in ranks.T:
        effects = draw.normal(0, 0.4, 256)
        score = score + effects[values % 256]
    probability: NDArray[np.float64] = 1 / (1 + np.exp(-(score - score.mean() + _SHIFT)))
    return probability


def _hexadecimal(values: NDArray[Any], missing: NDArray[Any]) -> list[str]:
    return ["" if gone else f"{value:08x}" for value, gone in zip(values.tolist(), missing.tolist(), strict=True)]
