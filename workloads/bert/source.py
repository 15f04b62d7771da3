"""Text files -> records of token pairs for BERT's two tasks (masking is drawn anew each time a record is read).

A record is int32, little endian: [length of A, length of B, B is random (1) or follows A (0), token ids...], where the
ids are `[CLS] A [SEP] B [SEP]` padded with zeros to the preset's sequence length.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from tfscale.suite.workload import random
from tfscale.workloads.make import Converted, Progress, files_below, require
from tfscale.workloads.records import DataError, RecordWriter

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNK, CLS, SEP, MASK = range(5)
HEADER = 3
"""Numbers before the token ids of a record."""
VOCABULARY = "vocab.txt"

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_DOCUMENT_SENTENCES = 64
"""A longer document is cut, so that one book still gives other documents to draw random sentences from."""
_POOL_DOCUMENTS = 256
_SHUFFLED_TOGETHER = 4096
"""Records shuffled as one block: a batch should not be one document."""

Sentences = list[list[int]]
Pair = tuple[list[int], list[int], int]


class Options(BaseModel):
    """Options of `tfscale data make bert`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vocabulary_size: int | None = Field(default=None, ge=len(SPECIAL) + 1)
    """Entries of the WordPiece vocabulary at most; default and limit: what the preset's embedding holds."""
    lowercase: bool = True


def convert(
    source: Path, writer: RecordWriter, shape: Any, options: Options, seed: int, progress: Progress
) -> Converted:
    """Train a vocabulary on the `.txt` files below `source`, then write pairs of `shape.sequence_length` tokens.

    A blank line or the end of a file ends a document. Files that are not UTF-8 are skipped and named in the manifest.
    """
    if options.vocabulary_size is not None and options.vocabulary_size > shape.vocabulary_size:
        most = shape.vocabulary_size
        raise DataError(f"vocabulary_size {options.vocabulary_size} is more than the preset's embedding holds ({most})")
    paths, skipped = _readable(files_below(source, (".txt",), "text file"))
    tokenizer = _trained(paths, options.vocabulary_size or shape.vocabulary_size, options.lowercase)
    tokens = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    (writer.directory / VOCABULARY).write_text("".join(token + "\n" for token, _ in tokens), encoding="utf-8")
    rows = _rows(_documents(paths, tokenizer, progress), shape.sequence_length, seed)
    _write_shuffled(writer, rows, seed)
    return Converted(
        shape={"sequence_length": shape.sequence_length, "vocabulary_size": len(tokens)},
        facts={"vocabulary": VOCABULARY, "lowercase": options.lowercase, "skipped_files": skipped[:20]},
        skipped=len(skipped),
    )


def _readable(paths: list[Path]) -> tuple[list[Path], list[str]]:
    good, bad = [], []
    for path in paths:
        try:
            with path.open(encoding="utf-8") as file:
                while file.read(1 << 20):
                    pass
            good.append(path)
        except (UnicodeDecodeError, OSError):
            bad.append(path.name)
    if not good:
        raise DataError(
            f"none of the {len(bad)} text files is readable UTF-8 (first: {bad[0]}); iconv can convert them"
        )
    return good, bad


def _trained(paths: list[Path], size: int, lowercase: bool) -> Any:
    """A WordPiece tokenizer (BERT's normaliser and word splitting) trained on the lines of `paths`.

    The trainer numbers the pieces that continue a word in the order of a hash table, and breaks ties by those numbers,
    so two runs would differ. Naming these pieces beforehand fixes the numbers; they are special tokens only to it.
    """
    empty = _tokenizer({}, lowercase)
    characters = {character for path in paths for line in _lines(path) for character in line}
    continuing = [f"##{character}" for character in _within_words(empty, characters)]
    trainer = require("tokenizers.trainers").WordPieceTrainer(
        vocab_size=size, special_tokens=[*SPECIAL, *continuing], show_progress=False
    )
    empty.train_from_iterator((line for path in paths for line in _lines(path)), trainer)
    vocabulary: dict[str, int] = empty.get_vocab()
    if len(vocabulary) == len(SPECIAL) + len(continuing):
        raise DataError("the text files hold no words")
    if len(vocabulary) > size:
        raise DataError(f"the text has {len(characters)} different characters, too many for a vocabulary of {size}")
    return _tokenizer(vocabulary, lowercase)


def _tokenizer(vocabulary: dict[str, int], lowercase: bool) -> Any:
    tokenizers = require("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _within_words(tokenizer: Any, characters: set[str]) -> list[str]:
    """Characters, as the normaliser leaves them, that can stand inside a word (punctuation and ideographs cannot)."""
    inside = set()
    for character in characters:
        text = tokenizer.normalizer.normalize_str(f"a{character}a")
        words = tokenizer.pre_tokenizer.pre_tokenize_str(text)
        if len(words) == 1:
            inside |= set(words[0][0][1:])
    return sorted(inside)


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield line.strip()


def _documents(paths: list[Path], tokenizer: Any, progress: Progress) -> Iterator[Sentences]:
    """The documents of all files, each a list of sentences as token ids."""
    total, done = sum(path.stat().st_size for path in paths), 0
    for path in paths:
        document: list[str] = []
        for line in _lines_and_end(path):
            if line:
                document += _SENTENCE_END.split(line)
            if document and (not line or len(document) >= _DOCUMENT_SENTENCES):
                encoded = tokenizer.encode_batch(document, add_special_tokens=False)
                yield [sentence.ids for sentence in encoded if sentence.ids]
                document = []
        done += path.stat().st_size
        progress(done, total, "bytes")


def _lines_and_end(path: Path) -> Iterator[str]:
    yield from _lines(path)
    yield ""


def _rows(documents: Iterator[Sentences], length: int, seed: int) -> Iterator[list[int]]:
    """Records as lists of HEADER + `length` numbers."""
    draw = random(seed, 1)
    pool: list[Sentences] = []
    for document in documents:
        for first, second, is_random in _pairs(document, pool, length - 3, draw):
            ids = [CLS, *first, SEP, *second, SEP]
            yield [len(first), len(second), is_random, *ids, *[PAD] * (length - len(ids))]
        if document:
            pool.append(document)
        if len(pool) > _POOL_DOCUMENTS:
            pool.pop(int(draw.integers(len(pool))))


def _pairs(document: Sentences, pool: list[Sentences], room: int, draw: np.random.Generator) -> Iterator[Pair]:
    """Cut a document into pairs as BERT did: half of them with a second part from another document of `pool`."""
    start = 0
    while start < len(document):
        wanted = room if draw.random() >= 0.1 else int(draw.integers(2, room + 1))
        stop, tokens = start, 0
        while stop < len(document) and tokens < wanted:
            tokens += len(document[stop])
            stop += 1
        cut = start + (int(draw.integers(1, stop - start)) if stop - start > 1 else 1)
        first = [token for sentence in document[start:cut] for token in sentence]
        follows = stop > cut and (not pool or draw.random() < 0.5)
        if follows:
            second = [token for sentence in document[cut:stop] for token in sentence]
        elif pool:
            second, stop = _from_pool(pool, max(1, wanted - len(first)), draw), cut
        else:
            return
        yield *_truncated(first, second, room, draw), int(not follows)
        start = stop


def _from_pool(pool: list[Sentences], wanted: int, draw: np.random.Generator) -> list[int]:
    other = pool[int(draw.integers(len(pool)))]
    tokens: list[int] = []
    for sentence in other[int(draw.integers(len(other))) :]:
        tokens += sentence
        if len(tokens) >= wanted:
            break
    return tokens


def _truncated(
    first: list[int], second: list[int], room: int, draw: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Shorten the longer part until both fit, at its front or its back at random; at least one token of each stays."""
    while (surplus := len(first) + len(second) - room) > 0:
        longer_is_first = len(first) > len(second)
        longer, shorter = (first, second) if longer_is_first else (second, first)
        cut = min(surplus, max(1, len(longer) - len(shorter)))
        longer = longer[cut:] if draw.random() < 0.5 else longer[: len(longer) - cut]
        first, second = (longer, shorter) if longer_is_first else (shorter, longer)
    return first, second


def _write_shuffled(writer: RecordWriter, rows: Iterator[list[int]], seed: int) -> None:
    draw, block = random(seed, 2), []
    for row in rows:
        block.append(row)
        if len(block) == _SHUFFLED_TOGETHER:
            _write_block(writer, block, draw)
            block = []
    if block:
        _write_block(writer, block, draw)


def _write_block(writer: RecordWriter, block: list[list[int]], draw: np.random.Generator) -> None:
    matrix = np.array(block, "<i4")[draw.permutation(len(block))]
    writer.rows(matrix.view(np.uint8))
