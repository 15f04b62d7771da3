"""The recommender's input from files: packed records parsed by the batch, categories folded into the tables."""

from pathlib import Path
from typing import Any

import tensorflow as tf

from tfscale.suite.spec import Input
from tfscale.workloads import pipeline
from tfscale.workloads.recommender.source import CATEGORICAL, DENSE
from tfscale.workloads.records import Manifest, open_folder


def dataset(
    shape: Any, directory: str | Path, *, input: Input, seed: int, shards: int, index: int, batch: int
) -> tf.data.Dataset:
    """Endless batches of `batch` samples for pipeline `index` of `shards`, as `Recommender.features` names them.

    Raises DataError when the folder does not fit the shape.
    """
    directory = Path(directory)
    manifest = open_data(shape, directory)
    records = pipeline.batches_of_records(
        directory, manifest, input=input, seed=seed, shards=shards, index=index, batch=batch
    )
    rows = tf.constant(shape.tables, tf.int64)
    batches = pipeline.mapped(records, lambda positions, encoded: parsed(encoded, rows, batch), input)
    return pipeline.finished(batches, input)


def open_data(shape: Any, directory: Path) -> Manifest:
    """The manifest of a folder that fits `shape`. Raises DataError."""
    return open_folder(directory, "recommender", exactly={"dense": shape.dense, "tables": len(shape.cardinalities)})


def parsed(encoded: tf.Tensor, rows: tf.Tensor, batch: int) -> dict[str, tf.Tensor]:
    """Features of `batch` packed records (string [batch]); `rows` holds the number of rows of each table (int64)."""
    numbers = tf.io.decode_raw(encoded, tf.int32, little_endian=True)
    numbers = tf.ensure_shape(numbers, [batch, 1 + DENSE + CATEGORICAL])
    label, dense, categories = tf.split(numbers, [1, DENSE, CATEGORICAL], axis=1)
    # A category is unsigned: as a signed number half of them would be negative.
    unsigned = tf.cast(tf.bitcast(categories, tf.uint32), tf.int64)
    return {
        "dense": tf.bitcast(dense, tf.float32),
        "indices": tf.cast(unsigned % rows, tf.int32),
        "label": tf.cast(label[:, 0], tf.float32),
    }
