"""Steps and time to a target loss, against the exact exchange: pure functions of loss series and step times.

The loss of a step is noisy, so it is smoothed by the mean of the last w steps before anything is read from it. The
target of a seed is the smoothed loss that `none` has after a given number of steps, and an exchange has come to it at
the first step whose smoothed loss is at or below it. `none` is judged by the same rule: where its smoothed loss had dipped
to the target before, it needs fewer steps than the target was taken after, and so may the others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tfscale.suite.record import Quantity, unknown
from tfscale.suite.timing.trials import across_trials, paired_ratio

STEPS = "first step with a smoothed loss at or below the target"
QUADRATURE = "log intervals of steps and step time in quadrature"


def smoothed(losses: ArrayLike, window: int) -> NDArray[np.float64]:
    """Trailing mean of `window` losses, (n,): NaN for the first window - 1 steps, which have too few before them.

    Raises ValueError for a window below 1.
    """
    if window < 1:
        raise ValueError(f"a mean needs a window of at least 1 step, got {window}")
    series = np.asarray(losses, dtype=np.float64)
    means = np.full(series.shape, np.nan)
    if series.size >= window:
        means[window - 1 :] = np.lib.stride_tricks.sliding_window_view(series, window).mean(axis=1)
    return means


def target(losses: ArrayLike, steps: int, window: int) -> float:
    """The smoothed loss after `steps` steps. Raises ValueError for a series that is shorter, or has no finite value there."""
    means = smoothed(losses, window)
    if not window <= steps <= means.size:
        raise ValueError(f"no smoothed loss after {steps} of {means.size} steps with a window of {window}")
    value = float(means[steps - 1])
    if not math.isfinite(value):
        raise ValueError(f"the smoothed loss after {steps} steps is {value}")
    return value


def steps_to(losses: ArrayLike, wanted: float, window: int) -> int | None:
    """Number (from 1) of the first step whose smoothed loss is at or below `wanted`; None where no step's is."""
    there = np.flatnonzero(smoothed(losses, window) <= wanted)
    return int(there[0]) + 1 if there.size else None


def hopeless(last: Sequence[float]) -> bool:
    """Whether none of the last losses is a number: weights that are NaN stay so."""
    return bool(last) and not any(math.isfinite(loss) for loss in last)


@dataclass(frozen=True)
class Paired:
    """What one seed gave: steps to the target under `none` and under the exchange, None where it was not reached."""

    seed: int
    base: int
    steps: int | None


@dataclass(frozen=True)
class Convergence:
    """Steps to the target over seeds. `ratio` is of steps, to those of `none` with the same seed."""

    steps: Quantity
    ratio: Quantity
    seeds: int
    unreached: int
    """Seeds with which the target was not reached."""
    limit: int
    """After so many steps the exchange was given up."""

    @property
    def failing(self) -> str:
        """`not reached in 900 steps by 2 of 5 seeds`, or nothing."""
        return not_reached(self.limit, self.unreached, self.seeds) if self.unreached else ""


def not_reached(limit: int, unreached: int, seeds: int) -> str:
    return f"not reached in {limit} steps by {unreached} of {seeds} seeds"


def convergence(seeds: Sequence[Paired], limit: int) -> Convergence:
    """Geometric means over seeds: of the steps, and of their ratios to `none` pair by pair, with intervals from 2 seeds.

    Null as soon as one seed has not come to the target: a mean over those that have would flatter the exchange.
    Raises ValueError for no seeds.
    """
    if not seeds:
        raise ValueError("convergence needs at least one seed")
    known = [float(each.steps) for each in seeds if each.steps is not None]
    missing = len(seeds) - len(known)
    if missing:
        reason = not_reached(limit, missing, len(seeds))
        nothing = unknown("steps", "measured", STEPS, reason), unknown("1", "derived", "ratio of steps", reason)
        return Convergence(*nothing, len(seeds), missing, limit)
    steps = across_trials([Quantity(value=v, unit="steps", kind="measured", statistic=STEPS) for v in known])
    return Convergence(steps, _ratio([each.base for each in seeds], known), len(seeds), 0, limit)


def _ratio(base: Sequence[int], other: Sequence[float]) -> Quantity:
    if len(base) > 1:
        return paired_ratio(base, other)
    return Quantity(value=other[0] / base[0], unit="1", kind="derived", statistic="ratio of steps, one seed")


def time_to_target(steps: Quantity, step_time: Quantity) -> Quantity:
    """Seconds: steps, counted on an unshaped link, times the mean step time on the case's own; derived.

    The link changes no loss of a synchronous exchange, so the two may come from different launches.
    """
    for part in (steps, step_time):
        if part.value is None:
            return unknown("s", "derived", "steps x step time", part.reason or "unknown")
    return _product(steps, step_time, 1.0, "s", "steps x step time")


def gain(ratio_of_steps: Quantity, faster: Quantity) -> Quantity:
    """How many times sooner than `none` the target is reached: `faster` (step time of none / step time) / steps ratio."""
    for part in (ratio_of_steps, faster):
        if part.value is None:
            return unknown("1", "derived", "time of none / time", part.reason or "unknown")
    return _product(faster, ratio_of_steps, -1.0, "1", "time of none / time")


def _product(first: Quantity, second: Quantity, power: float, unit: str, statistic: str) -> Quantity:
    """first x second^power; logarithms of independent estimates add, and so do the squares of their half-widths."""
    assert first.value is not None and second.value is not None
    value = first.value * second.value**power
    halves = [_half(part) for part in (first, second)]
    half = math.hypot(*(each for each in halves if each is not None)) if None not in halves else None
    scopes = {first.scope, second.scope}
    return Quantity(
        value=value,
        unit=unit,
        kind="derived",
        statistic=statistic,
        n_trials=min(first.n_trials, second.n_trials),
        ci95=None if half is None else (value * math.exp(-half), value * math.exp(half)),
        ci_method=None if half is None else QUADRATURE,
        scope="across_trials" if scopes == {"across_trials"} else "within_trial",
    )


def _half(part: Quantity) -> float | None:
    """Half the width of the interval on logarithms."""
    if part.ci95 is None or part.ci95[0] <= 0:
        return None
    return math.log(part.ci95[1] / part.ci95[0]) / 2


def sentence(faster: Quantity, found: Convergence) -> str:
    """`8.1x faster steps, 6 % more steps, 7.6x to target`: what an exchange gains a step, what it costs, what is left."""
    if faster.value is None:
        return f"steps cannot be compared: {faster.reason}"
    said = [f"{_times(faster.value)} faster steps" if faster.value >= 1 else f"{_times(1 / faster.value)} slower steps"]
    if found.ratio.value is None:
        return f"{said[0]}, target {found.failing or found.ratio.reason}"
    more = round(100 * (found.ratio.value - 1))
    said.append("as many steps" if more == 0 else f"{abs(more)} % {'more' if more > 0 else 'fewer'} steps")
    whole = gain(found.ratio, faster).value or 0.0
    return ", ".join([*said, f"{_times(whole)} to target"])


def _times(factor: float) -> str:
    """`1.03x`, `8.1x`, `12x`: near 1 the third digit tells whether anything is gained at all."""
    return f"{factor:.2f}x" if factor < 2 else f"{factor:.1f}x" if factor < 10 else f"{factor:.0f}x"
