"""Synthetic BERT batches: random words, whole pairs, fixed numbers of masked positions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.workload import random
from tfscale.workloads.bert.spec import FIRST_WORD, MASK_TOKEN, BertShape


def global_batch(s: BertShape, seed: int, index: int, batch: int) -> dict[str, NDArray[Any]]:
    """Global batch number `index`, features as the spec names them."""
    rng = random(seed, index)
    tokens = rng.integers(FIRST_WORD, s.vocabulary_size, (batch, s.sequence_length), dtype=np.int32)
    # The first position is [CLS], which is never predicted.
    order = 1 + np.argsort(rng.random((batch, s.sequence_length - 1)), axis=1)
    positions = np.sort(order[:, : s.predictions].astype(np.int32), axis=1)
    labels = np.take_along_axis(tokens, positions, axis=1)
    np.put_along_axis(tokens, positions, MASK_TOKEN, axis=1)
    second_starts = rng.integers(s.sequence_length // 4, 3 * s.sequence_length // 4, (batch, 1))
    return {
        "token_ids": tokens,
        "segment_ids": (np.arange(s.sequence_length) >= second_starts).astype(np.int32),
        "padding_mask": np.ones(tokens.shape, np.int32),
        "mlm_positions": positions,
        "mlm_ids": labels,
        "mlm_weights": np.ones(positions.shape, np.float32),
        "next_sentence": rng.integers(0, 2, batch, dtype=np.int32),
    }
