"""Steady state of a block series: its levels, its class, and the window that the record's figures are taken from."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tfscale.suite.analysis.regression import Segment, difference_scale, segment
from tfscale.suite.record import Level, Steady

FEWEST_BLOCKS = 20
LEAST_SHARE = 0.5
MIN_EFFECT = 0.02
_THRESHOLD = 4.0
_MIN_LEVEL = 5
_START_UP_CUT = 6.0
"""Robust standard deviations by which the first blocks must be slower to be a warm-up shorter than a level."""


def classify(step_seconds: ArrayLike, *, comparisons: int = 1) -> Steady:
    """Steady-state class of a block series (n,) of seconds per step, blocks of equal steps.

    After Barrett et al. 2017 (Virtual machine warmup blows hot and cold, OOPSLA): flat, one level; warm-up, the last
    level is the fastest (or within 2 % of it); slowdown, it is slower than an earlier one; none, the last level does
    not hold half of the measured time and 20 blocks. The steady window is the last level. For none it is that only
    where the last level is the fastest, as the best guess, and the whole series otherwise; `steady_problem` says why
    such a case is SUSPECT. `comparisons`: how many series are classified for one statement (ranks of a job); the
    threshold rises so that their joint false alarms stay those of one.

    Raises ValueError for a series that is empty or not finite.
    """
    values = np.asarray(step_seconds, dtype=np.float64)
    # The tail of a normal falls as exp(-z^2 / 2), so this is Bonferroni's correction.
    threshold = math.sqrt(_THRESHOLD**2 + 2 * math.log(max(comparisons, 1)))
    segments = segment(values, min_size=_MIN_LEVEL, min_effect=MIN_EFFECT, threshold=threshold)
    segments = _with_start_up(values, segments)
    levels = tuple(Level(start=part.start, stop=part.stop, mean=part.mean) for part in segments)
    last, fastest = segments[-1], min(part.level for part in segments)
    is_fastest = last.level <= fastest * (1 + MIN_EFFECT)
    if len(segments) == 1:
        return Steady(classification="flat", levels=levels, start=0, stop=values.size)
    if _shortfall(levels, last.start, last.stop) is not None:
        start = last.start if is_fastest else 0
        return Steady(classification="none", levels=levels, start=start, stop=values.size)
    kind = "warm-up" if is_fastest else "slowdown"
    return Steady(classification=kind, levels=levels, start=last.start, stop=last.stop)


def _with_start_up(values: NDArray[np.float64], segments: list[Segment]) -> list[Segment]:
    """Split off slow first blocks (a compile, a cold cache) that are too few to be a level of their own.

    Fewer than 5 look like outliers to the segmentation, but their place says what they are, and at twice the step
    time two of them in 60 would make the mean 3 % too high.
    """
    first = segments[0]
    if values.size < 2 * _MIN_LEVEL or first.stop - first.start < 2 * _MIN_LEVEL:
        return segments
    limit = first.level * (1 + MIN_EFFECT) + _START_UP_CUT * difference_scale(values[first.start : first.stop])
    slow = values[: _MIN_LEVEL - 1] > limit
    count = int(np.argmin(np.append(slow, False)))
    if count == 0:
        return segments
    head, tail = values[:count], values[count : first.stop]
    start_up = Segment(0, count, float(head.mean()), float(head.mean()))
    return [start_up, Segment(count, first.stop, float(tail.mean()), first.level), *segments[1:]]


def steady_problem(steady: Steady) -> str | None:
    """Why a case with this steady state is SUSPECT, or None.

    The steady window must lie in the last level and hold half of the measured time and 20 blocks. Time is
    blocks x mean step time of the levels, which is exact because all blocks have the same steps.
    """
    last = steady.levels[-1]
    start = max(last.start, steady.start)
    return _shortfall(steady.levels, start, min(last.stop, steady.stop))


def _shortfall(levels: Sequence[Level], start: int, stop: int) -> str | None:
    total = sum((level.stop - level.start) * level.mean for level in levels)
    share = (stop - start) * levels[-1].mean / total
    if stop - start < FEWEST_BLOCKS:
        return f"the last level has {stop - start} blocks, {FEWEST_BLOCKS} are needed"
    if share < LEAST_SHARE:
        return f"the last level holds {share:.0%} of the measured time, {LEAST_SHARE:.0%} is needed"
    return None


def classify_job(job_step_seconds: ArrayLike, rank_step_seconds: Sequence[ArrayLike]) -> Steady:
    """Steady state of a job: that of its job blocks, its warm-up ending with the last rank's (maximum over ranks).

    Series are seconds per step, (n,) each, block b the same steps on every rank. Raises ValueError for lengths that
    differ.
    """
    steady = classify(job_step_seconds)
    series = [np.asarray(values, dtype=np.float64) for values in rank_step_seconds]
    if any(values.size != np.size(job_step_seconds) for values in series):
        raise ValueError("every rank of a job must have as many blocks as the job")
    ranks = [classify(values, comparisons=len(series)) for values in series] if len(series) > 1 else []
    # A rank without steady state starts late only where its last level is its fastest: a long warm-up.
    ends = [rank.start for rank in ranks if rank.classification in ("warm-up", "none")]
    if steady.classification == "none" or max(ends, default=0) <= steady.start:
        return steady
    return _cut(steady, np.asarray(job_step_seconds, dtype=np.float64), max(ends))


def _cut(steady: Steady, values: NDArray[np.float64], start: int) -> Steady:
    """The last level split at `start`, where the steady window now begins."""
    last = steady.levels[-1]
    parts = ((last.start, start), (start, last.stop))
    levels = (*steady.levels[:-1], *(Level(start=a, stop=b, mean=float(values[a:b].mean())) for a, b in parts))
    kind = "warm-up" if steady.classification == "flat" else steady.classification
    if _shortfall(levels, start, last.stop) is not None:
        kind = "none"
    return Steady(classification=kind, levels=levels, start=start, stop=last.stop)
