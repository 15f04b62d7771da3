"""BERT's records and masking."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfscale.suite import workload as workloads
from tfscale.suite.spec import Input
from tfscale.workloads.bert import source
from tfscale.workloads.records import DataError, read_manifest

SHAPE = workloads.load("bert").shape("tiny")


def _rows(folder: Path) -> np.ndarray:
    files = [np.fromfile(path, np.uint8) for path in read_manifest(folder).paths(folder)]
    framed = np.concatenate(files).reshape(-1, 4 * (source.HEADER + SHAPE.sequence_length) + 16)
    return np.ascontiguousarray(framed[:, 12:-4]).view("<i4")


def test_records_are_whole_pairs(sample_folders: dict[str, Path]) -> None:
    rows = _rows(sample_folders["bert"])
    assert rows.shape[1] == source.HEADER + SHAPE.sequence_length
    for first, second, is_random, *tokens in rows.tolist():
        assert first >= 1 and second >= 1 and is_random in (0, 1)
        used = first + second + 3
        assert used <= SHAPE.sequence_length
        assert tokens[0] == source.CLS and tokens[first + 1] == tokens[used - 1] == source.SEP
        assert not any(tokens[used:])
        assert tokens[:used].count(source.SEP) == 2
    assert 0.4 < rows[:, 2].mean() < 0.6
    assert (rows[:, :2].sum(axis=1) + 3).mean() > 0.8 * SHAPE.sequence_length


def test_vocabulary_is_saved_beside_and_in_the_order_of_the_ids(sample_folders: dict[str, Path]) -> None:
    words = (sample_folders["bert"] / "vocab.txt").read_text(encoding="utf-8").splitlines()
    assert tuple(words[:5]) == source.SPECIAL
    assert len(words) == read_manifest(sample_folders["bert"]).shape["vocabulary_size"] <= SHAPE.vocabulary_size
    counts = np.bincount(_rows(sample_folders["bert"])[:, source.HEADER :].ravel(), minlength=len(words))
    assert counts[source.MASK] == 0
    assert counts[source.UNK] < 0.001 * counts.sum()
    frequent = np.sort(counts[5:])[::-1]
    # Zipf: the hundred most frequent words make up a good part of the text, and yet there is a long tail.
    assert 0.4 < frequent[:100].sum() / frequent.sum() < 0.95
    assert (frequent > 0).sum() > 2000


@pytest.mark.tensorflow
def test_masking_is_80_10_10_of_15_percent(sample_folders: dict[str, Path]) -> None:
    from tfscale.workloads.bert import data

    batches = list(_dataset(data, sample_folders["bert"]).take(6).as_numpy_iterator())
    many = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    weights = many["mlm_weights"].astype(bool)
    used = many["padding_mask"].sum(axis=1)
    np.testing.assert_array_equal(weights.sum(axis=1), np.clip(np.rint(0.15 * used), 1, SHAPE.predictions))
    original = many["mlm_ids"][weights]
    seen = np.take_along_axis(many["token_ids"], many["mlm_positions"], axis=1)[weights]
    assert not np.isin(original, (source.PAD, source.CLS, source.SEP, source.MASK)).any()
    shares = [
        np.mean(seen == source.MASK),
        np.mean((seen != source.MASK) & (seen != original)),
        np.mean(seen == original),
    ]
    # Some 24000 draws: a standard error of 0.26 % at most.
    np.testing.assert_allclose(shares, [0.8, 0.1, 0.1], atol=0.01)
    assert seen.max() < read_manifest(sample_folders["bert"]).shape["vocabulary_size"]


@pytest.mark.tensorflow
def test_masking_puts_back_to_the_record(sample_folders: dict[str, Path]) -> None:
    """With the predicted tokens put back, the sequences are those of the file; segments and padding fit them."""
    from tfscale.workloads.bert import data

    records = {row[source.HEADER :].tobytes(): row for row in _rows(sample_folders["bert"]).astype(np.int32)}
    for batch in _dataset(data, sample_folders["bert"]).take(1).as_numpy_iterator():
        for row in range(len(batch["token_ids"])):
            tokens, real = batch["token_ids"][row].copy(), batch["mlm_weights"][row] > 0
            places = batch["mlm_positions"][row]
            assert (
                (np.diff(places[real]) > 0).all() and not places[~real].any() and not batch["mlm_ids"][row][~real].any()
            )
            tokens[places[real]] = batch["mlm_ids"][row][real]
            first, second, is_random = records[tokens.tobytes()][: source.HEADER]
            assert batch["next_sentence"][row] == is_random
            assert batch["padding_mask"][row].tolist() == [1] * (first + second + 3) + [0] * (125 - first - second)
            assert batch["segment_ids"][row].tolist() == [0] * (first + 2) + [1] * (second + 1) + [0] * (
                125 - first - second
            )


@pytest.mark.tensorflow
def test_chosen_places_are_even(sample_folders: dict[str, Path]) -> None:
    from tfscale.workloads.bert import data

    batches = list(_dataset(data, sample_folders["bert"]).take(6).as_numpy_iterator())
    places = np.concatenate([batch["mlm_positions"][batch["mlm_weights"] > 0] for batch in batches])
    counts = np.bincount(places, minlength=128)[5:60]
    assert counts.std() < 2 * counts.mean() ** 0.5


@pytest.mark.tensorflow
def test_a_folder_of_another_length_or_vocabulary_is_refused(sample_folders: dict[str, Path]) -> None:
    from tfscale.workloads.bert import data

    longer = dataclasses.replace(SHAPE, sequence_length=512)
    with pytest.raises(DataError, match="sequence_length 128, but the preset needs 512"):
        data.open_data(longer, sample_folders["bert"])
    smaller = dataclasses.replace(SHAPE, vocabulary_size=100)
    with pytest.raises(DataError, match=r"vocabulary_size .* at most 100"):
        data.open_data(smaller, sample_folders["bert"])


def _dataset(data: Any, folder: Path) -> Any:
    return data.dataset(SHAPE, folder, input=Input(kind="files"), seed=3, shards=1, index=0, batch=256)
