"""ViT's input from files: JPEG decode of a random crop, resize, random flip, normalisation.

The crop is that of Szegedy et al. (arXiv:1409.4842): 8 % to 100 % of the area, aspect ratio 3:4 to 4:3. A crop that
does not fit is clipped to the image where others draw again, so that one draw a sample is enough.
"""

import math
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfscale.suite.spec import Input
from tfscale.workloads import pipeline
from tfscale.workloads.records import Manifest, open_folder
from tfscale.workloads.vit.source import HEADER_BYTES

MEAN = (123.675, 116.28, 103.53)
DEVIATION = (58.395, 57.12, 57.375)
"""Of ImageNet's channels, on the scale 0 to 255."""
_AREA = (0.08, 1.0)
_ASPECT = (3 / 4, 4 / 3)
_CROP = 1


def dataset(
    shape: Any, directory: str | Path, *, input: Input, seed: int, shards: int, index: int, batch: int
) -> tf.data.Dataset:
    """Endless batches of `batch` images for pipeline `index` of `shards`, as `Vit.features` names them.

    Raises DataError when the folder does not fit the shape.
    """
    directory = Path(directory)
    manifest = open_data(shape, directory)
    records = pipeline.batches_of_records(
        directory, manifest, input=input, seed=seed, shards=shards, index=index, batch=batch
    )

    def features(position: tf.Tensor, record: tf.Tensor) -> dict[str, tf.Tensor]:
        draws = pipeline.uniforms(seed, position[None], 5, _CROP)[0]
        header = tf.io.decode_raw(tf.strings.substr(record, 0, HEADER_BYTES), tf.int32, little_endian=True)
        jpeg = tf.strings.substr(record, HEADER_BYTES, -1)
        return {"image": augmented(jpeg, header[1], header[2], draws, shape.image_size), "label": header[0]}

    batches = pipeline.mapped(records.unbatch(), features, input).batch(batch, drop_remainder=True)
    return pipeline.finished(batches, input)


def open_data(shape: Any, directory: Path) -> Manifest:
    """The manifest of a folder that fits `shape`. Raises DataError.

    Images smaller than the preset's would be cheaper to decode than those that it is about, so they are refused.
    """
    return open_folder(
        directory, "vit", at_most={"classes": shape.classes}, at_least={"shorter_side": shape.image_size}
    )


def augmented(jpeg: tf.Tensor, height: tf.Tensor, width: tf.Tensor, draws: tf.Tensor, side: int) -> tf.Tensor:
    """A normalised float32 image [side, side, 3] from a JPEG of `height` x `width` pixels and five draws in [0, 1)."""
    image = tf.io.decode_and_crop_jpeg(jpeg, crop_window(height, width, draws), channels=3)
    image = tf.image.resize(image, [side, side])
    image = tf.where(draws[4] < 0.5, tf.reverse(image, [1]), image)
    return (image - tf.constant(MEAN)) * tf.constant([1 / deviation for deviation in DEVIATION])


def crop_window(height: tf.Tensor, width: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
    """Crop as int32 [top, left, height, width], inside the image, from draws of area, aspect, top and left."""
    sides = tf.cast(tf.stack([height, width]), tf.float32)
    area = (_AREA[0] + draws[0] * (_AREA[1] - _AREA[0])) * sides[0] * sides[1]
    low, high = (math.log(aspect) for aspect in _ASPECT)
    root = tf.exp((low + draws[1] * (high - low)) / 2)
    wanted = tf.sqrt(area) * tf.stack([1 / root, root])
    size = tf.clip_by_value(tf.round(wanted), 1.0, sides)
    corner = tf.floor(draws[2:4] * (sides - size + 1))
    return tf.cast(tf.concat([corner, size], 0), tf.int32)
