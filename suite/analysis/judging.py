"""What a series of nights says about the last ones: changed, unchanged, or why neither can be said. numpy only.

The seam between the detector and those who read its verdicts (`tfscale detect`, `tfscale gate`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.analysis.regression import hampel, segment

Verdict = Literal["changed", "unchanged", "suspicious", "unstable", "drifting", "not_enough_data", "missing"]
Direction = Literal["lower_is_better", "higher_is_better"]
Night = float | None | Sequence[float | None]
"""One night: a value, the values of its replicates, or nothing (None, NaN, no replicate)."""

RECENT = 20
"""Nights within which a change is told as `changed`; older ones are listed and alarm nobody."""
FEWEST = 10
"""Nights with a result below which nothing is judged."""
MIN_EFFECT = 0.02


@dataclass(frozen=True)
class Change:
    """A step to another level. `index`: the first point of the new level, in the caller's series."""

    index: int
    before: float
    after: float
    ratio: float | None
    """after / before; None where `before` is 0 or the signs differ."""
    p: float
    """Chance that a series without changes shows one this clear anywhere, from a normal tail."""


@dataclass(frozen=True)
class Judgement:
    """The verdict on a series, and what it rests on. Indices are those of the caller's series, missing nights included."""

    verdict: Verdict
    n: int
    """Nights with a result."""
    changes: tuple[Change, ...]
    outliers: tuple[int, ...]
    level: float | None
    """Where the series stands now: the level since the last change. None without any result."""
    noise: float | None
    """Standard deviation of a single night about the levels, as a fraction of `level`; None where it is not known."""
    reason: str


def judge(values: Sequence[Night], *, min_effect: float = MIN_EFFECT, recent: int = RECENT) -> Judgement:
    """Judge a series of nights (n,), oldest first.

    Raises ValueError for an infinite value, and for a `min_effect` or `recent` that is out of range.
    """
    if not 0 <= min_effect < 1 or recent < 1:
        raise ValueError(f"min_effect {min_effect} must be from 0 to below 1, recent {recent} at least 1")
    nights = nightly(values)
    places = np.flatnonzero(~np.isnan(nights))
    known = nights[places]
    if known.size == 0:
        return Judgement("missing", 0, (), (), None, None, "no night has a result")
    if known.size < FEWEST:
        level = float(np.median(known))
        return Judgement("not_enough_data", known.size, (), (), level, None, f"{known.size} nights, {FEWEST} needed")
    positive = bool(np.all(known > 0))
    _, odd = hampel(np.log(known) if positive else known)
    parts = segment(known, min_size=3, min_effect=min_effect)
    changes = tuple(
        Change(int(places[b.start]), a.level, b.level, _ratio(a.level, b.level), 0.0) for a, b in pairwise(parts)
    )
    level = parts[-1].level
    clean = np.concatenate([known[p.start : p.stop] - p.level for p in parts])[~odd]
    noise = float(np.std(clean)) / abs(level) if level else None
    outliers = tuple(int(place) for place in places[odd])
    if math.isnan(nights[-1]):
        verdict, reason = "missing", "the last night has no result"
    elif changes and changes[-1].index >= len(nights) - recent:
        verdict, reason = "changed", f"a new level since point {changes[-1].index}"
    elif outliers and outliers[-1] == len(nights) - 1:
        verdict, reason = "suspicious", "the last night is off; the next one tells"
    else:
        verdict, reason = "unchanged", f"no change in the last {recent} points"
    return Judgement(verdict, known.size, changes, outliers, level, noise, reason)  # type: ignore[arg-type]


def outcome(before: float, after: float, direction: Direction) -> Literal["regressed", "improved"]:
    """What a change from `before` to `after` is, for a metric of which lower or higher values are better."""
    return "improved" if (after < before) == (direction == "lower_is_better") else "regressed"


def nightly(values: Sequence[Night]) -> NDArray[np.float64]:
    """One value a night (n,), NaN where there is none: the median of its replicates. Raises ValueError for infinity."""
    return np.array([_night(index, value) for index, value in enumerate(values)], dtype=np.float64)


def _night(index: int, value: Night) -> float:
    replicates = value if isinstance(value, Sequence) else (value,)
    found = [float(one) for one in replicates if one is not None and not math.isnan(one)]
    if any(math.isinf(one) for one in found):
        raise ValueError(f"point {index} is infinite; give a finite value, or none where the night has no result")
    return float(np.median(found)) if found else math.nan


def _ratio(before: float, after: float) -> float | None:
    return after / before if before * after > 0 else None
