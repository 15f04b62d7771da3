"""Synthetic ViT batches: noise of zero mean and unit variance."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.workload import random
from tfscale.workloads.vit.spec import VitShape


def global_batch(s: VitShape, seed: int, index: int, batch: int) -> dict[str, NDArray[Any]]:
    """Global batch number `index`, features as the spec names them."""
    rng = random(seed, index)
    return {
        "image": rng.standard_normal((batch, s.image_size, s.image_size, s.channels), np.float32),
        "label": rng.integers(0, s.classes, batch, dtype=np.int32),
    }
