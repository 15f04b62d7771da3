"""What the deciding rank decides: the block size after a pilot, and when a trial has enough blocks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tfscale.suite.timing.statistics import mean_half_width, t_quantile
from tfscale.suite.timing.steady import classify, steady_problem

STOP = -1.0
"""Control value for stop; 0 is go on, K > 0 is K steps a block from the next dispatch on."""

LAG = 2
"""Blocks that are still timed after a decision: one is in flight, the next carries it (and one more is drained)."""
_PILOT_GROUPS = 4
"""Groups of one size that its time is estimated from."""
_WATCHED_GROUPS = 10
"""Blocks during which K may still grow: the first were maybe slow because they compiled."""
_LARGEST_GROWTH = 16.0
"""Per enlargement: the time of a short group is mostly fetch latency and says little about a long one."""
_MARGIN = 1.05
"""Over block_s, so that noise does not make blocks shorter than it."""


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """How a trial is timed. Times in seconds.

    With `max_steps` exactly that many steps are dispatched, pilot and drain included, and nothing else stops the
    trial. Raises ValueError for values that make no sense.
    """

    target: float = 0.01
    """Relative half-width of the 95 % interval for the mean step time at which a trial may stop."""
    min_blocks: int = 30
    min_s: float = 5.0
    budget_s: float = 60.0
    """Timed seconds of the trial; ends it whatever else is missing."""
    block_s: float = 0.2
    """Least length of a block."""
    steps_per_call: int = 1
    """Steps inside one tf.function; blocks are multiples of it."""
    max_steps: int | None = None

    def __post_init__(self) -> None:
        for name in ("target", "min_blocks", "budget_s", "block_s", "steps_per_call"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if self.max_steps is not None and (self.max_steps < 1 or self.max_steps % self.steps_per_call):
            raise ValueError(
                f"max_steps must be a positive multiple of steps_per_call ({self.steps_per_call}), got {self.max_steps}"
            )


class Decider:
    """Watches the blocks of one rank and returns the control value to dispatch next."""

    def __init__(self, settings: LoopSettings) -> None:
        self._settings = settings
        self._size = settings.steps_per_call
        self._decided = False
        self._next_look = 0
        # The first call imports scipy, which must not happen while blocks are timed.
        t_quantile(1.0)

    def resized(self, size: int) -> None:
        """The decision on the block size has arrived at all ranks; the series starts anew."""
        self._size, self._decided, self._next_look = size, False, 0

    def decide(self, seconds: Sequence[float]) -> float:
        """Control value after the blocks of `seconds` (all of the present size) ended: 0, a new block size, or STOP."""
        if self._decided or not seconds:
            return 0.0
        control = self._enlarged(seconds) or (STOP if self._enough(seconds) else 0.0)
        self._decided = control != 0.0
        return control

    def _enlarged(self, seconds: Sequence[float]) -> float:
        """A larger block size, or 0 where blocks are long enough."""
        if not _PILOT_GROUPS <= len(seconds) <= _WATCHED_GROUPS:
            return 0.0
        size = next_size(self._size, float(np.median(seconds[-_PILOT_GROUPS:])), self._settings)
        return float(size) if size > self._size else 0.0

    def _enough(self, seconds: Sequence[float]) -> bool:
        settings, count, elapsed = self._settings, len(seconds), math.fsum(seconds)
        if settings.max_steps is not None:
            return False
        if elapsed + LAG * elapsed / count >= settings.budget_s:
            return True
        if count < settings.min_blocks or elapsed < settings.min_s or count < self._next_look:
            return False
        # Every look is a chance to stop on a lucky interval, so there are few: when both least amounts are reached
        # (30 blocks, unless min_s is longer), then at every doubling.
        self._next_look = 2 * count
        return precise(seconds, settings.target)


def next_size(size: int, seconds: float, settings: LoopSettings) -> int:
    """Steps per block for blocks >= block_s, given that groups of `size` steps took `seconds`; `size` if that will do.

    With a fixed number of steps, blocks stay short enough for min_blocks of them.
    """
    if seconds >= settings.block_s:
        return size
    call = settings.steps_per_call
    growth = min(_MARGIN * settings.block_s / max(seconds, 1e-12), _LARGEST_GROWTH)
    grown = math.ceil(size * growth / call) * call
    if settings.max_steps is not None:
        grown = min(grown, settings.max_steps // settings.min_blocks // call * call)
    return max(grown, size)


def precise(seconds: ArrayLike, target: float) -> bool:
    """Whether the steady window of the block lengths (n,) gives their mean within the fraction `target`, 95 % interval.

    A series without a steady state, or with one that is too short, is never precise.
    """
    values = np.asarray(seconds, dtype=np.float64)
    steady = classify(values)
    if steady_problem(steady) is not None:
        return False
    window = values[steady.start : steady.stop]
    return mean_half_width(window) <= target * float(window.mean())
