"""ViT's records, crops and normalisation."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tfscale.suite import workload as workloads
from tfscale.suite.spec import Input
from tfscale.suite.workload import random
from tfscale.workloads.records import read_manifest, read_records
from tfscale.workloads.vit.sample import picture

SHAPE = workloads.load("vit").shape("micro")


def test_records_are_a_header_and_a_jpeg(sample_folders: dict[str, Path]) -> None:
    manifest = read_manifest(sample_folders["vit"])
    assert manifest.shape["classes"] == 10 and manifest.shape["shorter_side"] >= SHAPE.image_size
    labels = []
    for record in read_records(manifest.paths(sample_folders["vit"])[0]):
        label, height, width = np.frombuffer(record[:12], "<i4")
        with Image.open(io.BytesIO(record[12:])) as image:
            assert image.format == "JPEG" and image.size == (width, height)
        labels.append(label)
    assert len(set(labels)) == 10, "classes are mixed in every file"


@pytest.mark.tensorflow
def test_the_whole_image_under_a_full_crop() -> None:
    import tensorflow as tf

    from tfscale.workloads.vit import data

    pixels = picture(3, 48, 48, random(0, 1))
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=95)
    with Image.open(io.BytesIO(buffer.getvalue())) as image:
        decoded = np.asarray(image, np.float32)
    # Area just under 1, aspect 1, corner 0: the crop is the image, and its own size needs no interpolation.
    for flip, expected in ((0.9, decoded), (0.1, decoded[:, ::-1])):
        draws = tf.constant([0.999999, 0.5, 0.0, 0.0, flip])
        got = data.augmented(tf.constant(buffer.getvalue()), tf.constant(48), tf.constant(48), draws, 48).numpy()
        back = got * np.array(data.DEVIATION) + np.array(data.MEAN)
        # TensorFlow decodes with the fast inverse transform, Pillow with the exact one.
        assert np.abs(back - expected).mean() < 2 and np.abs(back - expected).max() < 12


@pytest.mark.tensorflow
def test_crops_stay_inside_and_cover_areas_and_aspects() -> None:
    import tensorflow as tf

    from tfscale.workloads.vit import data

    height, width = 300, 400
    draws = tf.constant(random(0, 2).random((400, 5)), tf.float32)
    sides = (tf.constant(height), tf.constant(width))
    windows = tf.map_fn(lambda draw: data.crop_window(*sides, draw), draws, fn_output_signature=tf.int32).numpy()
    top, left, high, wide = windows.T
    assert (windows[:, :2] >= 0).all() and (windows[:, 2:] >= 1).all()
    assert (top + high <= height).all() and (left + wide <= width).all()
    area, aspect = high * wide / (height * width), wide / high
    assert 0.07 < area.min() < 0.12 and 0.9 < area.max() <= 1
    inside = (high < height) & (wide < width)
    assert 0.74 < aspect[inside].min() < 0.8 and 1.25 < aspect[inside].max() < 1.36


@pytest.mark.tensorflow
def test_batches_are_normalised_and_labels_follow_the_images(sample_folders: dict[str, Path]) -> None:
    from tfscale.workloads.vit import data

    settings = Input(kind="files")
    dataset = data.dataset(SHAPE, sample_folders["vit"], input=settings, seed=0, shards=1, index=0, batch=512)
    batch = next(dataset.as_numpy_iterator())
    assert abs(batch["image"].mean()) < 0.5 and 0.5 < batch["image"].std() < 1.5
    assert np.bincount(batch["label"], minlength=10).tolist() == [52, 52, *[51] * 8]
