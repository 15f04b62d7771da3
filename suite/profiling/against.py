"""Two traces compared: which parts of a step grew, and what the lost efficiency is made of. Pure.

Efficiency is the base's mean step over the other's. Its loss is given to the parts by how much each grew:
1 - T0 / T1 = sum over parts of (p1 - p0) / T1, which sums exactly because parts sum to their spans (means, not medians,
which do not add).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tfscale.suite.profiling.breakdown import PARTS, Parts

WAIT, TRANSFER = "exposed_wait", "exposed_transfer"


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


def mean_parts(parts: Sequence[Parts]) -> tuple[Fraction, dict[str, Fraction]]:
    """(mean span, mean of every part) of steps, exact."""
    count = len(parts)
    span = Fraction(sum(part.span_ps for part in parts), count)
    return span, {name: Fraction(sum(part.parts[name] for part in parts), count) for name in PARTS}


def compare(base: Sequence[Parts], other: Sequence[Parts]) -> Difference:
    """Raises ValueError where either has no step."""
    if not base or not other:
        raise ValueError("a comparison needs at least one step in each trace")
    base_span, before = mean_parts(base)
    span, after = mean_parts(other)
    lost = {name: (after[name] - before[name]) / span for name in PARTS}
    efficiency = base_span / span
    assert efficiency + sum(lost.values()) == 1, "shares must sum to 1"
    return Difference(
        base_steps=len(base),
        steps=len(other),
        base_ps={name: float(value) for name, value in before.items()},
        parts_ps={name: float(value) for name, value in after.items()},
        base_span_ps=float(base_span),
        span_ps=float(span),
        efficiency=float(efficiency),
        lost={name: float(value) for name, value in lost.items()},
    )


def sentence(difference: Difference) -> str:
    """`efficiency 71 %: 18 points exposed communication, 7 input wait`."""
    points = sorted(difference.lost.items(), key=lambda item: -abs(item[1]))
    told = [f"{share * 100:+.1f} {name.replace('_', ' ')}" for name, share in points if abs(share) >= 0.0005]
    return f"efficiency {difference.efficiency:.1%}; points of the step lost: {', '.join(told) or 'none'}"
