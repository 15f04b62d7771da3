"""Shapes of a case's gradients, and made-up gradients of those shapes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

SCALE = 1e-3
"""Standard deviation of what is made up."""


@dataclass(frozen=True)
class GradientShape:
    """A float32 gradient: the shape of its variable, and for a sparse one the number of rows that a step gives."""

    shape: tuple[int, ...]
    rows: int | None = None
    index: str = "int32"
    """Type of a sparse one's row numbers."""


def shapes_of(gradients: Sequence[Any], variables: Sequence[Any]) -> list[GradientShape]:
    """Shapes of gradients while a step is traced. Raises ValueError where a number of rows is not known then."""
    return [_shape_of(gradient, tuple(variable.shape)) for gradient, variable in zip(gradients, variables, strict=True)]


def _shape_of(gradient: Any, shape: tuple[int, ...]) -> GradientShape:
    if not isinstance(gradient, tf.IndexedSlices):
        return GradientShape(shape)
    rows = gradient.values.shape[0]
    if rows is None:
        raise ValueError(f"the number of rows of the sparse gradient of a variable of shape {shape} is not known")
    return GradientShape(shape, int(rows), gradient.indices.dtype.name)


def made_up(shapes: Sequence[GradientShape]) -> list[Any]:
    """Tensors of normal numbers, and for a sparse gradient its row numbers behind its values."""
    draw = np.random.default_rng(0)
    tensors = []
    for each in shapes:
        shape = each.shape if each.rows is None else (each.rows, *each.shape[1:])
        tensors.append(tf.constant(draw.standard_normal(shape, np.float32) * np.float32(SCALE)))
        if each.rows is not None:
            tensors.append(tf.constant(draw.integers(0, each.shape[0], each.rows), each.index))
    return tensors


def specs(shapes: Sequence[GradientShape]) -> list[Any]:
    """What the tensors of `made_up` look like."""
    found = []
    for each in shapes:
        found.append(tf.TensorSpec(each.shape if each.rows is None else (each.rows, *each.shape[1:]), tf.float32))
        if each.rows is not None:
            found.append(tf.TensorSpec([each.rows], each.index))
    return found


def assembled(shapes: Sequence[GradientShape], tensors: Sequence[Any]) -> list[Any]:
    """Gradients, dense and IndexedSlices, from the tensors of `made_up`."""
    left = iter(tensors)
    return [
        next(left) if each.rows is None else tf.IndexedSlices(next(left), next(left), tf.constant(each.shape, tf.int64))
        for each in shapes
    ]
