"""Did the training that was timed train? A loss that is finite and falls."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tfscale.suite.ranks import RankData
from tfscale.suite.record import Check, Status
from tfscale.suite.validity.base import Evidence

FEWEST_STEPS = 50
_STANDARD_ERRORS = 2.0
_WORST_FIRST = ("nan_loss", "no_learning", "unknown", "falling")


def learning(evidence: Evidence) -> Iterator[Check]:
    """The loss is finite and falls."""
    yield loss_of_ranks(evidence.ranks)[1]


def loss_of_ranks(ranks: Sequence[RankData]) -> tuple[dict[str, Any], Check]:
    """`loss_verdict` of the ranks of a trial: in lockstep all see the same loss; apart, the worst counts."""
    told = [loss_verdict(rank.series.group_loss, rank.series.group_step) for rank in ranks]
    return min(told, key=lambda pair: _WORST_FIRST.index(pair[0]["verdict"]))


def loss_verdict(losses: ArrayLike, steps: ArrayLike) -> tuple[dict[str, Any], Check]:
    """The `loss` entry of a record, and the check that goes with it.

    `losses` (n,) are mean losses over replicas, `steps` (n,) the steps completed when each was taken, rising; pilot
    and blocks together, because the loss falls most at the start. Verdicts:

    * nan_loss (INVALID): a loss is not finite, however few steps there are;
    * unknown (VALID): under 50 steps, or fewer than 2 losses in the first or last fifth of the steps;
    * falling (VALID): the mean of the last fifth is below that of the first by 2 standard errors of the difference;
    * no_learning (SUSPECT): anything else.

    Raises ValueError for no losses, or series of different lengths.
    """
    values, at = np.asarray(losses, dtype=np.float64), np.asarray(steps, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or values.shape != at.shape:
        raise ValueError(f"losses and steps must be equally long and not empty, got {values.shape} and {at.shape}")
    total = int(at[-1])
    first, last = values[at <= total / 5], values[at > total - total / 5]
    verdict, status, detail = _judge(values, first, last, total)
    loss = {"first_fifth": _summary(first), "last_fifth": _summary(last), "verdict": verdict, "steps": total}
    return loss, Check(name="learning", status=status, detail=detail)


def _judge(
    values: NDArray[np.float64], first: NDArray[np.float64], last: NDArray[np.float64], steps: int
) -> tuple[str, Status, str]:
    if not np.all(np.isfinite(values)):
        return "nan_loss", "INVALID", f"{np.count_nonzero(~np.isfinite(values))} of {values.size} losses are not finite"
    if steps < FEWEST_STEPS:
        return "unknown", "VALID", f"{steps} steps are too few to tell, {FEWEST_STEPS} are needed"
    if min(first.size, last.size) < 2:
        return "unknown", "VALID", f"{first.size} losses in the first fifth and {last.size} in the last, 2 are needed"
    drop = float(first.mean() - last.mean())
    error = math.hypot(_standard_error(first), _standard_error(last))
    detail = f"loss {first.mean():.4g} -> {last.mean():.4g} (drop {drop:.3g}, standard error {error:.2g})"
    if drop > _STANDARD_ERRORS * error:
        return "falling", "VALID", detail
    return "no_learning", "SUSPECT", detail


def _standard_error(values: NDArray[np.float64]) -> float:
    """Of the mean of `values` (n >= 2,), taken as independent; a trend within them makes it larger, never smaller."""
    return float(values.std(ddof=1)) / math.sqrt(values.size)


def _summary(values: NDArray[np.float64]) -> dict[str, float | None]:
    """Mean and standard error; null where there are too few values or one is not finite (JSON has no NaN)."""
    finite = bool(np.all(np.isfinite(values)))
    return {
        "mean": float(values.mean()) if finite and values.size else None,
        "standard_error": _standard_error(values) if finite and values.size > 1 else None,
    }
