"""Two settings against each other: ratio of their throughputs, what it shows, and the trials that would show more.

Everything is on logarithms of trial means, so that A over B is the reciprocal of B over A. Pure.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from tfscale.suite.record import Kind, Quantity
from tfscale.suite.timing.statistics import t_quantile
from tfscale.suite.timing.trials import PAIRED, WELCH, Series, welch_error

Shown = Literal["faster", "slower", "no_difference_shown", "no_interval"]
EFFECT, POWER = 0.02, 0.8
"""What "would need n trials" is asked for unless the user says otherwise: a difference of 2 %, seen 4 times of 5."""
MOST_TRIALS = 10_000
STATISTIC = "ratio of geometric means of trial throughputs, B / A"
MEAN = "geometric mean of ratios"
MEMBERS = "members' standard errors in quadrature on logarithms, Satterthwaite's degrees of freedom"


@dataclass(frozen=True)
class LogRatio:
    """ln(B / A): `error` is its standard error with `freedom` degrees of freedom, both None where one trial a side is all.

    `trials`: of the side that has fewer; pairs where `paired`.
    """

    centre: float
    error: float | None
    freedom: float | None
    trials: int
    paired: bool = False

    @property
    def half_width(self) -> float | None:
        """Of the 95 % interval."""
        if self.error is None or self.freedom is None:
            return None
        return t_quantile(self.freedom) * self.error


def log_ratio(a: ArrayLike, b: ArrayLike, *, paired: bool = False) -> LogRatio:
    """From the trial means of A (n,) and B (m,), independent launches; of pairs run side by side (n = m) if `paired`.

    Welch's standard error (1947) and Satterthwaite's degrees of freedom (1946), or Student's of the pairs' log ratios.
    Raises ValueError for no trials, values that are not positive, or pairs that do not fit.
    """
    first, second = _logs(a), _logs(b)
    fewest = min(first.size, second.size)
    if paired and first.size != second.size:
        raise ValueError(f"pairs need as many trials of A as of B, got {first.size} and {second.size}")
    centre = float(second.mean() - first.mean())
    if fewest < 2:
        return LogRatio(centre, None, None, fewest, paired)
    if paired:
        differences = second - first
        error = float(differences.std(ddof=1)) / math.sqrt(differences.size)
        return LogRatio(centre, error, differences.size - 1, differences.size, paired)
    error, freedom = welch_error(first, second)
    return LogRatio(centre, error, freedom, fewest)


def ratio_of(log: LogRatio, kind: Kind = "derived", statistic: str = STATISTIC) -> Quantity:
    """The ratio with its interval; without one where there was one trial of a side."""
    method = None if log.error is None else PAIRED if log.paired else WELCH
    return _quantity(log.centre, log.half_width, kind, statistic, log.trials, method)


def shown(ratio: Quantity) -> Shown:
    """What the interval of a ratio B / A of throughputs says of B."""
    if ratio.value is None or ratio.ci95 is None:
        return "no_interval"
    low, high = ratio.ci95
    return "faster" if low > 1 else "slower" if high < 1 else "no_difference_shown"


def geometric_mean(members: Sequence[LogRatio], kind: Kind = "derived") -> Quantity:
    """Geometric mean of the members' ratios, each counted alike, with the interval that their trials give it.

    The cases are taken as they are, not as a sample of all cases; their errors as independent. ln of the mean has the
    error sqrt(sum of squares) / k. No interval where a member has none. Raises ValueError for no members.
    """
    if not members:
        raise ValueError("a geometric mean needs at least one member")
    count = len(members)
    centre = sum(member.centre for member in members) / count
    squares = [member.error**2 for member in members if member.error is not None]
    if len(squares) < count:
        return _quantity(centre, None, kind, MEAN, min(member.trials for member in members), None)
    total = sum(squares)
    freedoms = [member.freedom for member in members if member.freedom is not None]
    spent = sum(square**2 / freedom for square, freedom in zip(squares, freedoms, strict=True))
    half = t_quantile(total**2 / spent) * math.sqrt(total) / count if spent else 0.0
    return _quantity(centre, half, kind, MEAN, min(member.trials for member in members), MEMBERS)


def trials_needed(
    a: ArrayLike, b: ArrayLike, *, paired: bool = False, effect: float = EFFECT, power: float = POWER
) -> int | None:
    """Trials of each side (or pairs) that show a ratio of 1 + `effect` with probability `power`, at a 5 % level.

    The spread between trials is taken from those given (n >= 2 a side): it is an estimate, and a rough one below
    5 trials. From the non-central t distribution (Cohen 1988, chapter 2). None beyond MOST_TRIALS. Raises ValueError.
    """
    first, second = _logs(a), _logs(b)
    if min(first.size, second.size) < 2:
        raise ValueError("the spread between trials needs at least 2 trials of each side")
    if effect <= 0 or not 0 < power < 1:
        raise ValueError(f"effect {effect!r} must be positive and power {power!r} between 0 and 1")
    variances = [float((second - first).var(ddof=1))] if paired else [float(s.var(ddof=1)) for s in (first, second)]
    if sum(variances) == 0:
        return 2
    low, high = 1, 2
    while high <= MOST_TRIALS and _power(variances, high, effect) < power:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _power(variances, middle, effect) >= power else (middle, high)
    return high if high <= MOST_TRIALS else None


def _power(variances: Sequence[float], trials: int, effect: float) -> float:
    """Probability that `trials` of each of one (pairs) or two sides show ln(1 + effect)."""
    from scipy.special import nctdtr

    total = sum(variances)
    freedom = (trials - 1) * total**2 / sum(variance**2 for variance in variances)
    bound, shift = t_quantile(freedom), math.log1p(effect) * math.sqrt(trials / total)
    return float(1 - nctdtr(freedom, shift, bound) + nctdtr(freedom, shift, -bound))


def _quantity(
    centre: float, half: float | None, kind: Kind, statistic: str, trials: int, method: str | None
) -> Quantity:
    known = half is not None and abs(centre) + half < 700
    return Quantity(
        value=math.exp(centre),
        unit="1",
        kind=kind,
        statistic=statistic,
        n_trials=trials,
        ci95=(math.exp(centre - half), math.exp(centre + half)) if known and half is not None else None,
        ci_method=method if known else None,
        scope="across_trials",
    )


def _logs(values: ArrayLike) -> Series:
    series = np.asarray(values, dtype=np.float64)
    if series.ndim != 1 or series.size == 0 or not np.all(series > 0):
        raise ValueError("trial means must be a one-dimensional, non-empty series of positive values")
    return np.asarray(np.log(series), dtype=np.float64)
