"""How much work to put between two exchanges, so that what communication leaves exposed is a stated share of a step.

Seed idea: latency-driven dynamic batches. A pilot launch measures a step and the same step without its exchange; the
difference is exposed communication. It does not grow with accumulation or with the batch, computing does.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Pilot:
    """What a pilot launch found, in seconds and bytes; the slowest or largest of its ranks."""

    step_s: float
    """A step as the case takes it."""
    alone_s: float
    """The same step when its gradients stay where they are."""
    memory_bytes: int | None = None
    """Peak memory of a rank: the device's where that is known, else the host's."""

    @property
    def exposed_s(self) -> float:
        """Communication that computing does not hide; never negative, as noise may have it."""
        return max(0.0, self.step_s - self.alone_s)


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why in a sentence."""

    value: int
    why: str
    expected_share: float
    """Exposed communication / step, as the model has it at that value."""


MOST = 1024
"""No choice is larger: an optimiser step of a thousand micro-batches is another training."""


def share_at(pilot: Pilot, factor: float) -> float:
    """Exposed share of a step with `factor` times the pilot's computing: c / (f t + c)."""
    total = factor * pilot.alone_s + pilot.exposed_s
    return pilot.exposed_s / total if total > 0 else 0.0


def least_factor(pilot: Pilot, share: float) -> int:
    """The least whole factor with `share_at` no more than `share` (0 < share < 1), MOST at most."""
    if not 0 < share < 1:
        raise ValueError(f"share {share!r} is not between 0 and 1")
    if pilot.alone_s <= 0:
        raise ValueError(f"a step of {pilot.alone_s} s without exchange was not measured")
    wanted = pilot.exposed_s * (1 - share) / (share * pilot.alone_s)
    return min(MOST, max(1, math.ceil(wanted - 1e-9)))


def choose_accumulation(pilot: Pilot, share: float) -> Choice:
    """Micro-batches a step. `pilot` was measured with one."""
    factor = least_factor(pilot, share)
    return Choice(factor, _why(pilot, share, factor, "accumulation"), share_at(pilot, factor))


def choose_batch(pilot: Pilot, batch: int, share: float, most: int | None) -> Choice:
    """Samples a replica takes, `batch` times a power of two. `pilot` was measured with `batch`; `most` fit in memory."""
    wanted = least_factor(pilot, share)
    factor = 1 << (wanted - 1).bit_length()
    limit = "" if most is None else f"; {most} samples fit in memory"
    if most is not None:
        while factor > 1 and batch * factor > most:
            factor //= 2
    reached = share_at(pilot, factor) <= share
    why = _why(pilot, share, factor, "batch x") + (limit if not reached else "")
    return Choice(batch * factor, why, share_at(pilot, factor))


def fitting_batch(batch: int, once: int, twice: int, available: int) -> int | None:
    """Largest batch whose peak memory stays within `available` bytes, from the peaks with `batch` and with twice that.

    None when the peaks tell nothing: the second is no larger than the first. At least `batch`, which ran.
    """
    if twice <= once:
        return None
    each = (twice - once) / batch
    return max(batch, int(batch + (available - once) / each))


def _why(pilot: Pilot, share: float, factor: int, what: str) -> str:
    seconds = f"{1e3 * pilot.step_s:.4g} ms a step, {1e3 * pilot.alone_s:.4g} ms of them without the exchange"
    reached = share_at(pilot, factor)
    told = f"{seconds}: {what} {factor} leaves {reached:.1%} of a step exposed"
    return f"{told}, {share:.1%} is asked for" + ("" if reached <= share else " and not reached")
