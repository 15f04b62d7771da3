"""A seeded collection of English-like text: Zipf word frequencies, a small grammar, documents that keep to a topic."""

from pathlib import Path
from typing import Any

import numpy as np

from tfscale.suite.workload import random

_ONSETS = ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr", "pl"]
_SYLLABLES = [onset + vowel + coda for onset in _ONSETS for vowel in "aeiou" for coda in ("", "n", "r", "s", "l")]
_PATTERNS = (
    "the J N V the N",
    "a N of the N V in the J N",
    "the N that V the N V it",
    "it V with the J N and the N",
    "for the N this N V as a J N",
    "the N and the N V on the N by N",
    "N from the J N V not at the N but in it",
)
"""N, V and J stand for a noun, a verb and an adjective."""
_KINDS = {"N": 3000, "V": 900, "J": 600}
_TOPICS = 20
_TOKENS_A_SENTENCE = 13
_SENTENCES = (12, 60)
RECORDS = 1100
"""About this many records come out of one sample."""


def write_source(shape: Any, directory: Path, seed: int) -> Path:
    """Write text for about RECORDS records of `shape.sequence_length` tokens as `.txt` files into `directory`."""
    words = {kind: _words(size, random(seed, 10, number)) for number, (kind, size) in enumerate(_KINDS.items())}
    draw = random(seed, 11)
    sentences = RECORDS * shape.sequence_length // _TOKENS_A_SENTENCE
    files = 8
    for number in range(files):
        (directory / f"part-{number}.txt").write_text(_text(sentences // files, words, draw), encoding="utf-8")
    return directory


def _words(size: int, draw: np.random.Generator) -> list[str]:
    """`size` distinct made-up words; the frequent ones (first) are short, as in language."""
    taken: dict[str, None] = {}
    while len(taken) < size:
        syllables = 1 + int(draw.integers(0, 2)) + (len(taken) > 200)
        taken.setdefault("".join(draw.choice(_SYLLABLES, syllables)))
    return list(taken)


def _text(sentences: int, words: dict[str, list[str]], draw: np.random.Generator) -> str:
    """Documents with blank lines between them, a paragraph of several sentences a line."""
    documents: list[str] = []
    while sentences > 0:
        count = min(sentences, int(draw.integers(*_SENTENCES)))
        documents.append(_document(count, words, draw))
        sentences -= count
    return "\n\n".join(documents) + "\n"


def _document(sentences: int, words: dict[str, list[str]], draw: np.random.Generator) -> str:
    topic = int(draw.integers(_TOPICS))
    patterns = [_PATTERNS[number].split() for number in draw.integers(0, len(_PATTERNS), sentences)]
    wanted = {kind: sum(pattern.count(kind) for pattern in patterns) for kind in words}
    supply = {kind: iter(_zipf(words[kind], wanted[kind], topic, draw)) for kind in words}
    written = [" ".join(next(supply[slot]) if slot in supply else slot for slot in pattern) for pattern in patterns]
    finished = [f"{text[0].upper()}{text[1:]}." for text in written]
    return "\n".join(" ".join(finished[line : line + 4]) for line in range(0, sentences, 4))


def _zipf(words: list[str], count: int, topic: int, draw: np.random.Generator) -> list[str]:
    """`count` words, the r-th most frequent with weight 1 / r; half of them moved to ones that belong to the topic."""
    ranks = np.floor(np.exp(draw.random(count) * np.log(len(words)))).astype(int) - 1
    own = ranks - ranks % _TOPICS + topic
    return [words[min(rank, len(words) - 1)] for rank in np.where(draw.random(count) < 0.5, own, ranks)]
