"""Which exchange a case should use: predicted seconds of each, and why one is taken. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

CLOSE = 0.05
"""Predictions that differ by less are not told apart."""


@dataclass(frozen=True)
class Candidate:
    """An exchange as a suite would name it, with the seconds that it is predicted to add to a step."""

    name: str
    exact: bool
    wire_s: float
    codec_s: float = 0.0
    collectives: int = 1
    """On its busiest level: the more, the sooner the first can leave."""

    @property
    def seconds(self) -> float:
        return self.wire_s + self.codec_s


@dataclass(frozen=True)
class Choice:
    """What was taken, and why, in a sentence."""

    name: str
    reason: str


def choose(candidates: Sequence[Candidate], close: float = CLOSE) -> Choice:
    """The fastest; among those within `close` of it an exact one, and then the one in most collectives.

    How much of an exchange the backward pass hides is not predicted: it only ever helps those that start early, so it
    decides between equals. Raises ValueError for no candidates.
    """
    if not candidates:
        raise ValueError("there is no exchange to choose from")
    fastest = min(candidates, key=lambda each: each.seconds)
    near = [each for each in candidates if each.seconds <= fastest.seconds * (1 + close)]
    exact = [each for each in near if each.exact] or near
    chosen = max(exact, key=lambda each: (each.collectives, -each.seconds))
    return Choice(chosen.name, _reason(chosen, fastest, candidates))


def _reason(chosen: Candidate, fastest: Candidate, candidates: Sequence[Candidate]) -> str:
    told = f"{chosen.name} is predicted to add {_ms(chosen.seconds)} to a step"
    if chosen.codec_s:
        told += f", {_ms(chosen.codec_s)} of it encoding and decoding"
    if chosen is not fastest:
        better = "exact" if chosen.exact and not fastest.exact else "sooner on its way"
        told += f"; {fastest.name} is {_ms(fastest.seconds)}, too close to tell, and {chosen.name} is {better}"
    others = sorted((each for each in candidates if each not in (chosen, fastest)), key=lambda each: each.seconds)
    if others:
        told += "; next " + ", ".join(f"{each.name} {_ms(each.seconds)}" for each in others[:3])
    return told


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
