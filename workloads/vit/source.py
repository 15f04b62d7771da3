"""A folder of images (one subfolder a class) -> records of a small header and a JPEG.

A record is [label, height, width] as int32, little endian, then the bytes of a JPEG with one or three channels. JPEGs
are copied as they are: encoding them again would lose quality and change what decoding costs.
"""

import io
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from tfscale.suite.workload import random
from tfscale.workloads.make import Converted, Progress, files_below, require
from tfscale.workloads.records import DataError, RecordWriter

HEADER_BYTES = 12
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff")


class Options(BaseModel):
    """Options of `tfscale data make vit`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shorter_side: int | None = Field(default=None, ge=8)
    """Shrink larger images so that the shorter side has this many pixels; default: keep their size."""
    quality: int = Field(default=95, ge=1, le=100)
    """JPEG quality of images that have to be encoded."""


def convert(
    source: Path, writer: RecordWriter, shape: Any, options: Options, seed: int, progress: Progress
) -> Converted:
    """Write all images below `source` in a seeded order; the class is the name of the subfolder of `source`.

    Unreadable images are skipped, counted and named. Raises DataError when there are more classes than `shape.classes`.
    """
    require("PIL.Image")
    paths = files_below(source, SUFFIXES, "image")
    classes = _classes(source, paths, shape.classes)
    skipped: list[str] = []
    sides: list[int] = []
    encoded = 0
    for done, position in enumerate(random(seed, 1).permutation(len(paths)), start=1):
        path = paths[int(position)]
        progress(done, len(paths), "images")
        name = path.relative_to(source)
        try:
            jpeg, height, width, was_encoded = _jpeg(path, options)
        except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises for a damaged file of various formats
            skipped.append(f"{name}: {error}")
            continue
        header = np.array([classes[name.parts[0]], height, width], "<i4")
        writer.record(header.tobytes() + jpeg)
        sides.append(min(height, width))
        encoded += was_encoded
    if not sides:
        raise DataError(f"none of the {len(paths)} images of {source} could be read (first: {skipped[0]})")
    return Converted(
        shape={"classes": len(classes), "shorter_side": int(np.median(sides))},
        facts={"class_names": list(classes), "encoded_again": encoded, "skipped_images": sorted(skipped)[:20]},
        skipped=len(skipped),
    )


def _classes(source: Path, paths: list[Path], most: int) -> dict[str, int]:
    """Class name -> label, in the order of the names."""
    if source.is_file():
        raise DataError(f"{source} is a file; give a folder with one subfolder of images a class")
    loose = [path.name for path in paths if path.parent == source]
    if loose:
        raise DataError(
            f"{len(loose)} images lie in {source} itself (first: {loose[0]}), so their class is unknown; "
            "put them into one subfolder a class"
        )
    names = sorted({path.relative_to(source).parts[0] for path in paths})
    if len(names) > most:
        raise DataError(f"{source} has {len(names)} subfolders, but the preset tells only {most} classes apart")
    return {name: label for label, name in enumerate(names)}


def _opened(pillow: ModuleType, data: bytes) -> Any:
    try:
        return pillow.open(io.BytesIO(data))
    except OSError as error:  # Pillow names the buffer, which helps nobody
        raise OSError("no image that Pillow can read") from error


def _jpeg(path: Path, options: Options) -> tuple[bytes, int, int, bool]:
    """(JPEG bytes, height, width, whether it was encoded here) of one image. Raises OSError or ValueError."""
    pillow = require("PIL.Image")
    data = path.read_bytes()
    with _opened(pillow, data) as image:
        shrink = options.shorter_side is not None and min(image.size) > options.shorter_side
        if image.format == "JPEG" and image.mode in ("RGB", "L") and not shrink:
            width, height = image.size
            image.draft(image.mode, (width // 8, height // 8))  # reads the whole file, but computes an eighth of it
            image.load()
            return data, height, width, False
        image = image.convert("RGB")
        if shrink:
            scale = options.shorter_side / min(image.size)
            image = image.resize([max(1, round(side * scale)) for side in image.size], pillow.Resampling.LANCZOS)
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=options.quality)
        return buffer.getvalue(), image.height, image.width, True
