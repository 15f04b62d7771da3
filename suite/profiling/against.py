"""Two traces compared: which parts of a step grew, and what the lost efficiency is made of. Pure.

Efficiency is the base's mean step over the other's. Its loss is given to the parts by how much each grew:
1 - T0 / T1 = sum over parts of (p1 - p0) / T1, which sums exactly because parts sum to their spans (means, not medians,
which do not add).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tfscale.suite.profiling.breakdown import PARTS, Parts

COMMUNICATION = "exposed_communication"


@dataclass(frozen=True)
class Difference:
    """Mean parts of a step in the base and in the other trace, and the shares of the other's step."""

    base_steps: int
    steps: int
    base_ps: dict[str, float]
    parts_ps: dict[str, float]
    base_span_ps: float
    span_ps: float
    efficiency: float
    lost: dict[str, float]
    """By part: how much of the other's step it took more than in the base; negative where it shrank."""
    lost_wait: float | None
    """What of the lost exposed communication is waiting for the last rank, the skew; None where arrivals are not known
    in both."""


def mean_parts(parts: Sequence[Parts]) -> tuple[Fraction, dict[str, Fraction]]:
    """(mean span, mean of every part) of steps, exact."""
    count = len(parts)
    span = Fraction(sum(part.span_ps for part in parts), count)
    return span, {name: Fraction(sum(part.parts[name] for part in parts), count) for name in PARTS}


def compare(
    base: Sequence[Parts],
    other: Sequence[Parts],
    base_waits: Sequence[int] | None = None,
    other_waits: Sequence[int] | None = None,
) -> Difference:
    """`base_waits`, `other_waits`: what of each step's exposed communication is waiting for the last rank, picoseconds.

    Raises ValueError where either has no step, or only steps without length.
    """
    if not base or not other:
        raise ValueError("a comparison needs at least one step in each trace")
    base_span, before = mean_parts(base)
    span, after = mean_parts(other)
    if not base_span or not span:
        raise ValueError("its steps have no length")
    lost = {name: (after[name] - before[name]) / span for name in PARTS}
    efficiency = base_span / span
    assert efficiency + sum(lost.values()) == 1, "shares must sum to 1"
    wait = None
    if base_waits is not None and other_waits is not None:
        wait = (Fraction(sum(other_waits), len(other)) - Fraction(sum(base_waits), len(base))) / span
    return Difference(
        base_steps=len(base),
        steps=len(other),
        base_ps={name: float(value) for name, value in before.items()},
        parts_ps={name: float(value) for name, value in after.items()},
        base_span_ps=float(base_span),
        span_ps=float(span),
        efficiency=float(efficiency),
        lost={name: float(value) for name, value in lost.items()},
        lost_wait=None if wait is None else float(wait),
    )


def sentence(difference: Difference) -> str:
    """`efficiency 71.0%; points of the step lost: +18.0 exposed transfer, +7.0 input wait, +4.0 exposed wait`."""
    lost = dict(difference.lost)
    if difference.lost_wait is not None:
        lost["exposed_wait"] = difference.lost_wait
        lost["exposed_transfer"] = lost.pop(COMMUNICATION) - difference.lost_wait
    points = sorted(lost.items(), key=lambda item: -abs(item[1]))
    told = [f"{share * 100:+.1f} {name.replace('_', ' ')}" for name, share in points if abs(share) >= 0.0005]
    return f"efficiency {difference.efficiency:.1%}; points of the step lost: {', '.join(told) or 'none'}"
