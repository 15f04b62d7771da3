"""How much of a gradient a compressed one still says: cheap figures, to be read beside bytes and time."""

from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.floating[Any]]]


def recall(sent: Vector, dense: Vector) -> float:
    """Share of the k elements of largest magnitude of `dense` that were sent; k is the number of non-zeros of `sent`.

    1 when nothing was sent: nothing was asked for.
    """
    places = np.flatnonzero(sent)
    if not len(places):
        return 1.0
    largest = np.argsort(-np.abs(dense), kind="stable")[: len(places)]
    return len(np.intersect1d(places, largest)) / len(places)


def cosine(one: Vector, other: Vector) -> float:
    """Cosine of the angle between two vectors, in float64: 1 means the same direction. NaN where one of them is zero."""
    a, b = np.asarray(one, np.float64).ravel(), np.asarray(other, np.float64).ravel()
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norms if norms else float("nan")
