"""Seeded images of classes that can be told apart: shape, gradient direction and texture belong to the class."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.workload import random
from tfscale.workloads.make import require

CLASSES = 10
IMAGES = 512


def write_source(shape: Any, directory: Path, seed: int) -> Path:
    """Write IMAGES JPEGs, a little larger than `shape.image_size` as photographs are, one subfolder a class."""
    pillow = require("PIL.Image")
    classes = min(CLASSES, shape.classes)
    for number in range(classes):
        (directory / f"class-{number:02d}").mkdir()
    for number in range(IMAGES):
        draw = random(seed, 20, number)
        label = number % classes
        height, width = (int(side) for side in draw.integers(shape.image_size, shape.image_size * 4 // 3 + 1, 2))
        image = pillow.fromarray(picture(label, height, width, draw))
        image.save(directory / f"class-{label:02d}" / f"{number:04d}.jpg", quality=int(draw.integers(75, 96)))
    return directory


def picture(label: int, height: int, width: int, draw: np.random.Generator) -> NDArray[np.uint8]:
    """RGB image (height x width x 3) of class `label`: gradient direction, stripe width and shape follow the class."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32) / np.float32(min(height, width))
    angle = 2 * np.pi * label / CLASSES + draw.normal(0, 0.1)
    along = x * np.cos(angle) + y * np.sin(angle)
    background, foreground = (draw.uniform(40, 215, 3).astype(np.float32) for _ in range(2))
    stripes = np.float32(25) * np.sin(2 * np.pi * along * (3 + 2 * (label % 5)))
    image = background + np.float32(80) * (along - along.mean())[..., None] + stripes[..., None]
    image = np.where(_inside(label % 3, x, y, draw)[..., None], foreground, image)
    coarse = draw.normal(0, 12, (-(-height // 2), -(-width // 2), 1)).astype(np.float32)
    noise = coarse.repeat(2, axis=0).repeat(2, axis=1)[:height, :width]
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def _inside(kind: int, x: NDArray[np.float32], y: NDArray[np.float32], draw: np.random.Generator) -> NDArray[np.bool_]:
    """Pixels within a disc, a square or a triangle of random place and size."""
    radius, (centre_x, centre_y) = draw.uniform(0.15, 0.35), draw.uniform(0.35, 0.65, 2)
    across, down = np.abs(x - centre_x), y - centre_y
    disc = across**2 + down**2 < radius**2
    square = np.maximum(across, np.abs(down)) < radius
    triangle = (np.abs(down) < radius) & (across < (down + radius) / 2)
    shapes: list[NDArray[np.bool_]] = [disc, square, triangle]
    return shapes[kind]
