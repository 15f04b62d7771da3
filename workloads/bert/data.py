"""BERT's input from files: records of sentence pairs, masked anew for every position of the endless stream.

Masking as in Devlin et al. (arXiv:1810.04805): 15 % of a sequence's tokens are to be predicted, at most
`shape.predictions`; of these 80 % become [MASK], 10 % a random word and 10 % stay as they are.
"""

from pathlib import Path
from typing import Any

import tensorflow as tf

from tfscale.suite.spec import Input
from tfscale.workloads import pipeline
from tfscale.workloads.bert.source import CLS, HEADER, MASK, SEP, SPECIAL
from tfscale.workloads.records import Manifest, open_folder

PREDICTED = 0.15
MASKED, RANDOM = 0.8, 0.1
_CHOICE, _REPLACEMENT, _WORD = 1, 2, 3


def dataset(
    shape: Any, directory: str | Path, *, input: Input, seed: int, shards: int, index: int, batch: int
) -> tf.data.Dataset:
    """Endless batches of `batch` sequences for pipeline `index` of `shards`, as `Bert.features` names them.

    Raises DataError when the folder does not fit the shape.
    """
    directory = Path(directory)
    manifest = open_data(shape, directory)
    words = manifest.shape["vocabulary_size"]
    records = pipeline.batches_of_records(
        directory, manifest, input=input, seed=seed, shards=shards, index=index, batch=batch
    )

    def features(positions: tf.Tensor, encoded: tf.Tensor) -> dict[str, tf.Tensor]:
        numbers = tf.io.decode_raw(encoded, tf.int32, little_endian=True)
        numbers = tf.ensure_shape(numbers, [batch, HEADER + shape.sequence_length])
        return masked(numbers, positions, shape.predictions, words, seed)

    return pipeline.finished(pipeline.mapped(records, features, input), input)


def open_data(shape: Any, directory: Path) -> Manifest:
    """The manifest of a folder that fits `shape`. Raises DataError."""
    return open_folder(
        directory,
        "bert",
        exactly={"sequence_length": shape.sequence_length},
        at_most={"vocabulary_size": shape.vocabulary_size},
    )


def masked(numbers: tf.Tensor, positions: tf.Tensor, predictions: int, words: int, seed: int) -> dict[str, tf.Tensor]:
    """Features of a batch of records (`numbers`: int32 [n, HEADER + length]) at `positions` (int64 [n]) of the stream.

    `words` is the size of the vocabulary that the records were made with: random words come from it.
    """
    first, second, is_random = (numbers[:, column] for column in range(HEADER))
    tokens = numbers[:, HEADER:]
    length = tokens.shape[1]
    column = tf.range(length)[None, :]
    used = (first + second + 3)[:, None]
    special = (tokens == CLS) | (tokens == SEP) | (column >= used)
    chosen = _chosen(special, used, predictions, pipeline.uniforms(seed, positions, length, _CHOICE))
    return {
        "token_ids": tf.where(chosen, _replaced(tokens, positions, words, seed), tokens),
        "segment_ids": tf.cast((column >= (first + 2)[:, None]) & (column < used), tf.int32),
        "padding_mask": tf.cast(column < used, tf.int32),
        **_labels(chosen, tokens, predictions),
        "next_sentence": is_random,
    }


def _chosen(special: tf.Tensor, used: tf.Tensor, predictions: int, draws: tf.Tensor) -> tf.Tensor:
    """Which tokens are to be predicted: those of the smallest draws, as many as the share says."""
    wanted = tf.clip_by_value(tf.cast(tf.round(PREDICTED * tf.cast(used, tf.float32)), tf.int32), 1, predictions)
    # Ranks, not a threshold on the draws: two equal draws would let one token too many through.
    ranks = tf.argsort(tf.argsort(tf.where(special, 2.0, draws), stable=True), stable=True)
    return (ranks < wanted) & ~special


def _replaced(tokens: tf.Tensor, positions: tf.Tensor, words: int, seed: int) -> tf.Tensor:
    """What stands in the place of each token if it is chosen."""
    length = tokens.shape[1]
    kind = pipeline.uniforms(seed, positions, length, _REPLACEMENT)
    ordinary = tf.constant(words - len(SPECIAL), tf.float32)
    word = len(SPECIAL) + tf.cast(pipeline.uniforms(seed, positions, length, _WORD) * ordinary, tf.int32)
    return tf.where(kind < MASKED, MASK, tf.where(kind < MASKED + RANDOM, word, tokens))


def _labels(chosen: tf.Tensor, tokens: tf.Tensor, predictions: int) -> dict[str, tf.Tensor]:
    """Positions (in order), the tokens that were there, and weights; places left over are 0 with weight 0."""
    length = tokens.shape[1]
    ranked = tf.where(chosen, tf.range(length, 0, -1)[None, :], 0)
    top = tf.math.top_k(ranked, predictions).values
    real = top > 0
    where = tf.where(real, length - top, 0)
    return {
        "mlm_positions": where,
        "mlm_ids": tf.where(real, tf.gather(tokens, where, batch_dims=1), 0),
        "mlm_weights": tf.cast(real, tf.float32),
    }
