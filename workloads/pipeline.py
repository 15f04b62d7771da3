"""The part of the input pipeline that all workloads share: which record comes when, on which of the pipelines of a job.

The global stream is endless: in each epoch, position j reads record j // F of file order[j mod F], with `order` a
permutation of the F files drawn from (seed, epoch), and each file's records shuffled within chunks drawn from (seed,
epoch, file, chunk). Pipeline r of n takes the positions j with j mod n = r, so the
union over r of batch k (G / n samples each) is positions [k G, (k + 1) G) whatever n is. Where n divides F a pipeline
opens only its own files; else it reads all and drops the other positions before anything is decoded or parsed.

Randomness (augmentation, masking) is a pure function of (seed, position): it does not depend on n either.
"""

from pathlib import Path
from typing import Any

import tensorflow as tf

from tfscale.suite.spec import Input
from tfscale.workloads.records import Manifest

_FILE_ORDER, _CHUNK_ORDER = -1, -2
"""Purposes of the draws that order files and records; workloads number theirs from 1."""
_MOST_RECORDS, _CHUNK_BYTES, _READ_BYTES = 256, 1 << 18, 1 << 18
_plain = tf.autograph.experimental.do_not_convert
"""There is no Python control flow on tensors here, and looking for it takes a good part of a second."""
_WORD = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def batches_of_records(
    directory: Path, manifest: Manifest, *, input: Input, seed: int, shards: int, index: int, batch: int
) -> tf.data.Dataset:
    """Endless dataset of (positions in the global stream: int64 [batch], records: string [batch]) of one pipeline.

    With `input.cache == "memory"` the records of the first epoch are kept, so later epochs repeat its order.
    Raises ValueError when `index` is not below `shards`.
    """
    if not 0 <= index < shards:
        raise ValueError(f"pipeline index {index} is not in [0, {shards})")
    files = len(manifest.files)
    mine = slice(index, None, shards) if files % shards == 0 else slice(None)
    paths = tf.constant([str(path) for path in manifest.paths(directory)])

    def epoch(number: tf.Tensor) -> tf.data.Dataset:
        order = tf.argsort(uniforms(seed, number[None], files, purpose=_FILE_ORDER)[0])[mine]
        chunk = _chunk(manifest)

        def chunks(file: tf.Tensor) -> tf.data.Dataset:
            records = tf.data.TFRecordDataset(paths[file], buffer_size=_READ_BYTES).batch(chunk).enumerate()
            first = (number * files + tf.cast(file, tf.int64)) * 2**32
            return records.map(_plain(lambda part, batch: _shuffled(batch, seed, first + part, chunk)))

        return _in_turn(order, chunks, len(manifest.files[mine]), input.parallel)

    if input.cache == "memory":
        stream = epoch(tf.constant(0, tf.int64)).cache().repeat()
    else:
        stream = tf.data.Dataset.counter(dtype=tf.int64).flat_map(_plain(epoch))
    # Where files cannot be shared out, the whole job's batch is read and every shards-th record of it kept.
    read, kept = (batch, slice(None)) if files % shards == 0 else (batch * shards, slice(index, None, shards))

    def numbered(number: tf.Tensor, records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        within = tf.range(batch, dtype=tf.int64)
        return (number * batch + within) * shards + index, tf.ensure_shape(records[kept], [batch])

    return stream.rebatch(read, drop_remainder=True).enumerate().map(_plain(numbered))


def _in_turn(order: tf.Tensor, chunks: Any, files: int, parallel: int) -> tf.data.Dataset:
    """The records of `files` files, one of each in turn, as string vectors of up to `files` x the length of a chunk.

    Taking records one by one costs more than a small record is worth, so a chunk of them is taken from each file in
    turn and put in order afterwards. The files are equally long, hence so are the chunks of one turn.
    """
    calls = None if parallel == 0 else parallel if parallel < 0 else min(parallel, files)
    taken = tf.data.Dataset.from_tensor_slices(order).interleave(
        _plain(chunks), cycle_length=files, block_length=1, num_parallel_calls=calls
    )
    return taken.batch(files, drop_remainder=True).map(_plain(lambda turn: tf.reshape(tf.transpose(turn), [-1])))


def _shuffled(records: tf.Tensor, seed: int, number: tf.Tensor, most: int) -> tf.Tensor:
    """A chunk of up to `most` records in an order of its own, so that epochs differ in more than the order of files."""
    draws = uniforms(seed, number[None], most, purpose=_CHUNK_ORDER)[0]
    return tf.gather(records, tf.argsort(draws[: tf.size(records)]))


def _chunk(manifest: Manifest) -> int:
    return max(1, min(_MOST_RECORDS, _CHUNK_BYTES * manifest.records // manifest.bytes))


def mapped(dataset: tf.data.Dataset, function: Any, input: Input) -> tf.data.Dataset:
    """`dataset.map(function)` with as many parallel calls as `input` asks for (in order: see `finished`)."""
    return dataset.map(_plain(function), num_parallel_calls=input.parallel or None)


def finished(dataset: tf.data.Dataset, input: Input) -> tf.data.Dataset:
    """Add the prefetch that `input` asks for, keep the order, and keep tf.data from sharding what is sharded here."""
    if input.prefetch != 0:
        dataset = dataset.prefetch(input.prefetch)
    options = tf.data.Options()
    options.deterministic = True
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(options)


def uniforms(seed: int, positions: tf.Tensor, count: int, purpose: int) -> tf.Tensor:
    """Numbers in [0, 1), float32 [n, count]: row i is a pure function of (seed, positions[i], purpose).

    A counter run through the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), on whole batches: one stateless
    generator call per sample would cost more than the masking that it feeds.
    """
    columns = tf.cast(tf.range(count, dtype=tf.int64), tf.uint64)
    counters = tf.cast(positions, tf.uint64)[:, None] * _word(count) + columns
    bits = counters * _word(_GAMMA) + _word(_finalised(seed * _GAMMA + purpose + 1))
    bits = tf.bitwise.bitwise_xor(bits, tf.bitwise.right_shift(bits, _word(30))) * _word(_MULTIPLIERS[0])
    bits = tf.bitwise.bitwise_xor(bits, tf.bitwise.right_shift(bits, _word(27))) * _word(_MULTIPLIERS[1])
    bits = tf.bitwise.bitwise_xor(bits, tf.bitwise.right_shift(bits, _word(31)))
    return tf.cast(tf.bitwise.right_shift(bits, _word(40)), tf.float32) * (2.0**-24)


def _word(value: int) -> tf.Tensor:
    return tf.constant(value & _WORD, tf.uint64)


def _finalised(value: int) -> int:
    """The same finaliser on one Python integer, so that close seeds and purposes start far apart."""
    value &= _WORD
    value = (value ^ (value >> 30)) * _MULTIPLIERS[0] & _WORD
    value = (value ^ (value >> 27)) * _MULTIPLIERS[1] & _WORD
    return value ^ (value >> 31)
