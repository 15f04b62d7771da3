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

from tfscale.suite.analysis.regression import Segment, hampel, segment
from tfscale.suite.timing.autocorrelation import ar1_long_run_variance

Values = NDArray[np.float64]

Verdict = Literal["changed", "unchanged", "suspicious", "unstable", "drifting", "not_enough_data", "missing"]
Direction = Literal["lower_is_better", "higher_is_better"]
Night = float | None | Sequence[float | None]
"""One night: a value, the values of its replicates, or nothing (None, NaN, no replicate)."""

RECENT = 20
"""Nights within which a change is told as `changed`; older ones are listed and alarm nobody."""
FEWEST = 10
"""Nights with a result below which nothing is judged."""
MIN_EFFECT = 0.02
MIN_LEVEL = 3
"""Nights that make a level."""
THRESHOLD = 3.8
"""Standard errors by which a step must stand out; see regression.segment."""
OUTLIER, CAUTION = 3.2, 0.3
"""Cut of the filter before the search (what is reported as odd has to stand out more), and standard errors
by which the correlation of nights is raised."""
PAIR = 1.8
"""How much more two steps at once must gain than each alone: a night or three that are off and come back are mostly
chance."""
NEAR = 5
"""Nights by which the place of a change may be off and still be of use to somebody who looks for its cause."""
FAR, SHARE, SWITCHES, MOST_STEPS, SURE = 6.0, 0.15, 0.12, 6, 5.0
"""Of `alternating` and `trend`."""


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
    scaled, odd = hampel(np.log(known) if positive else known)
    parts = segment(
        known,
        min_size=MIN_LEVEL,
        min_effect=min_effect,
        threshold=THRESHOLD,
        outlier=OUTLIER,
        caution=CAUTION,
        near=NEAR,
        pair=PAIR,
    )
    residuals = np.concatenate([scaled[p.start : p.stop] - scaled[p.start : p.stop].mean() for p in parts])
    span = known.size / len(parts)
    variance = ar1_long_run_variance(residuals, span) if span > MIN_LEVEL else float(residuals.var())
    changes = tuple(_change(places, scaled, a, b, variance) for a, b in pairwise(parts))
    level = parts[-1].level
    noise = _noise(residuals[~odd], level, positive)
    outliers = tuple(int(place) for place in places[odd])
    verdict: Verdict
    if math.isnan(nights[-1]):
        verdict, reason = "missing", "the last night has no result"
    elif switches := alternating(scaled):
        verdict, reason = "unstable", f"it changes between two levels far apart, {switches} times"
    elif drift := trend(scaled, residuals, min_effect if positive else None):
        verdict, reason = "drifting", f"a straight line of {drift:+.1%} over the series fits as well as levels do"
    elif changes and changes[-1].index >= len(nights) - recent:
        verdict, reason = "changed", f"a new level since point {changes[-1].index}"
    elif outliers and outliers[-1] == len(nights) - 1:
        verdict, reason = "suspicious", "the last night is off; the next one tells"
    else:
        verdict, reason = "unchanged", f"no change in the last {recent} points"
    return Judgement(verdict, known.size, changes, outliers, level, noise, reason)


def _change(places: NDArray[np.intp], scaled: Values, a: Segment, b: Segment, variance: float) -> Change:
    """A step between two levels. p: two-sided normal tail of their difference over its long-run standard error, times
    the positions that were searched (Bonferroni): an upper bound."""
    one, other = scaled[a.start : a.stop], scaled[b.start : b.stop]
    error = math.sqrt(variance * (1 / one.size + 1 / other.size))
    z = abs(float(other.mean() - one.mean())) / error if error > 0 else math.inf
    p = min(1.0, scaled.size * math.erfc(z / math.sqrt(2)))
    return Change(int(places[b.start]), a.level, b.level, _ratio(a.level, b.level), p)


def _noise(residuals: Values, level: float, positive: bool) -> float | None:
    """Relative standard deviation: of logarithms it is the deviation itself."""
    spread = float(np.std(residuals)) if residuals.size else 0.0
    return spread if positive else spread / abs(level) if level else None


def alternating(scaled: Values) -> int:
    """How often a series changes between two far modes; 0 where it has no two, or stays long in each.

    Two means are fitted (the split of the sorted values with the least squares, as k-means finds for k = 2); they are far
    where they lie FAR standard deviations of their own values apart, and both hold a SHARE of the values. Steps change
    sides once each; a lottery does it again and again.
    """
    values = np.sort(scaled)
    n = values.size
    sums, squares = np.cumsum(values - values.mean()), np.cumsum((values - values.mean()) ** 2)
    cuts = np.arange(math.ceil(SHARE * n), n - math.ceil(SHARE * n) + 1)
    left = squares[cuts - 1] - sums[cuts - 1] ** 2 / cuts
    right = squares[-1] - squares[cuts - 1] - (sums[-1] - sums[cuts - 1]) ** 2 / (n - cuts)
    cut = int(cuts[int(np.argmin(left + right))])
    spread = math.sqrt(max(float((left + right).min()), 0.0) / n)
    apart = float(values[cut:].mean() - values[:cut].mean())
    if apart <= 0 or apart < FAR * spread:
        return 0
    sides = scaled >= values[cut]
    switches = int(np.count_nonzero(sides[1:] != sides[:-1]))
    return switches if switches >= max(MOST_STEPS, SWITCHES * n) else 0


def trend(scaled: Values, residuals: Values, min_effect: float | None) -> float:
    """Change over the series by a straight line, where that explains it no worse than the levels do (`residuals`); else 0.

    The slope must be beyond doubt (|t| > 5 with the line's own long-run variance) and its total at least `min_effect`
    of a logarithm, or where that is None, one standard deviation of what is left.
    """
    n = scaled.size
    time = np.arange(n) - (n - 1) / 2
    slope = float(time @ scaled) / float(time @ time)
    rest = scaled - scaled.mean() - slope * time
    total, least = slope * (n - 1), float(rest.std()) if min_effect is None else math.log1p(min_effect)
    variance = ar1_long_run_variance(rest, n, 2) if n > 6 else float(rest.var())
    clear = abs(slope) > SURE * math.sqrt(variance / float(time @ time))
    if not clear or abs(total) < least or float(rest @ rest) > float(residuals @ residuals):
        return 0.0
    return math.expm1(total) if min_effect is not None else total


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
