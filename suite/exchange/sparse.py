"""Putting the sparse gradients of many tables into one, so that they travel in one gather.

A recommender has a table per feature, all of one width. TensorFlow gathers each sparse gradient on its own, several
collectives and hundreds of graph nodes a table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fused:
    """Sparse gradients of one width and dtype: `places` in the list they came from, row counts, and the joint slices."""

    places: tuple[int, ...]
    rows: tuple[int, ...]
    shapes: tuple[Any, ...]
    slices: Any

    def split(self, gathered: Any) -> list[Any]:
        """The gradients of each table again, from the joint slices of all replicas (each gave the same row counts)."""
        import tensorflow as tf

        total = sum(self.rows)
        width = self.slices.values.shape[1:]
        values = tf.reshape(gathered.values, [-1, total, *width])
        indices = tf.reshape(gathered.indices, [-1, total])
        parts, begin = [], 0
        for rows, shape in zip(self.rows, self.shapes, strict=True):
            own = slice(begin, begin + rows)
            table = tf.reshape(values[:, own], [-1, *width])
            parts.append(tf.IndexedSlices(table, tf.reshape(indices[:, own], [-1]), shape))
            begin += rows
        return parts


def fuse(gradients: Sequence[Any]) -> list[Fused]:
    """Groups of the sparse gradients among `gradients` whose rows have one shape and dtype; dense ones are left out.

    Row numbers stay those of each table: the joint slices are gathered as they are, never applied or summed.
    Raises ValueError when the number of rows is not known while tracing.
    """
    import tensorflow as tf

    groups: dict[Any, list[int]] = {}
    for place, gradient in enumerate(gradients):
        if isinstance(gradient, tf.IndexedSlices):
            if gradient.values.shape.num_elements() is None:
                raise ValueError(
                    f"the number of rows of a sparse gradient of shape {gradient.values.shape} is not known"
                )
            key = (*gradient.values.shape[1:], gradient.values.dtype, gradient.indices.dtype)
            groups.setdefault(key, []).append(place)
    fused = []
    for places in groups.values():
        members = [gradients[place] for place in places]
        joint = tf.IndexedSlices(
            tf.concat([member.values for member in members], 0),
            tf.concat([member.indices for member in members], 0),
            members[0].dense_shape,
        )
        rows = tuple(int(member.values.shape[0]) for member in members)
        fused.append(Fused(tuple(places), rows, tuple(member.dense_shape for member in members), joint))
    return fused
