"""How often to save: the checkpoint period that costs least for a given rate of failures. Pure.

Failures come as a Poisson process with a mean time between them of M seconds, a checkpoint stops training for d seconds,
coming back from a failure takes R seconds, and a period is t seconds of training between two checkpoints.

Sources: J. W. Young, "A first order approximation to the optimum checkpoint interval", Communications of the ACM 17(9),
1974, 530-531. J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
Generation Computer Systems 22(3), 2006, 303-312.
"""

import math
from dataclasses import dataclass


def young(cost_s: float, mtbf_s: float) -> float:
    """First-order period, seconds of training between two checkpoints: sqrt(2 d M) (Young 1974)."""
    _check(cost_s, mtbf_s)
    return math.sqrt(2 * cost_s * mtbf_s)


def daly(cost_s: float, mtbf_s: float) -> float:
    """Higher-order period, seconds of training (Daly 2006).

    sqrt(2 d M) (1 + sqrt(d / 2 M) / 3 + (d / 2 M) / 9) - d for d < 2 M, else M.
    """
    _check(cost_s, mtbf_s)
    if cost_s >= 2 * mtbf_s:
        return mtbf_s
    half = cost_s / (2 * mtbf_s)
    return math.sqrt(2 * cost_s * mtbf_s) * (1 + math.sqrt(half) / 3 + half / 9) - cost_s


def elapsed(solve_s: float, period_s: float, cost_s: float, restart_s: float, mtbf_s: float) -> float:
    """Expected seconds until `solve_s` seconds of training are done, checkpoints, failures and restarts included.

    M e^(R / M) (e^((t + d) / M) - 1) T / t: Daly's complete model (2006), in which a failure may also come while
    a checkpoint is written or while the job comes back. Infinite where no segment can be expected to pass.
    """
    _check(cost_s, mtbf_s)
    if period_s <= 0:
        raise ValueError(f"a period is longer than 0 s, got {period_s:g}")
    try:
        return mtbf_s * math.exp(restart_s / mtbf_s) * math.expm1((period_s + cost_s) / mtbf_s) * solve_s / period_s
    except OverflowError:
        return math.inf


def overhead(period_s: float, cost_s: float, restart_s: float, mtbf_s: float) -> float:
    """What checkpoints and failures add to training, relative to training alone: `elapsed` / `solve_s` - 1."""
    return elapsed(1.0, period_s, cost_s, restart_s, mtbf_s) - 1.0


@dataclass(frozen=True)
class Best:
    """The whole number of steps between two checkpoints that costs least at one mean time between failures."""

    steps: int
    overhead: float
    """Of that period; `math.inf` where no period lets the job get on."""


def best_steps(step_s: float, cost_s: float, restart_s: float, mtbf_s: float) -> Best:
    """The best whole number of steps, at least 1, by the complete model.

    The model has one minimum in the period, so the neighbours of Daly's estimate are looked at until none is better.
    """
    if step_s <= 0:
        raise ValueError(f"a step takes longer than 0 s, got {step_s:g}")

    def costs(steps: int) -> float:
        return overhead(steps * step_s, cost_s, restart_s, mtbf_s)

    steps = max(1, round(daly(cost_s, mtbf_s) / step_s))
    stride = max(1, steps // 8)
    while True:
        there = min((max(1, steps - stride), steps, steps + stride), key=costs)
        if there != steps:
            steps = there
        elif stride == 1:
            return Best(steps, costs(steps))
        else:
            stride = max(1, stride // 4)


def _check(cost_s: float, mtbf_s: float) -> None:
    if cost_s < 0 or mtbf_s <= 0:
        raise ValueError(f"a checkpoint costs 0 s or more and failures are apart, got {cost_s:g} s and {mtbf_s:g} s")
