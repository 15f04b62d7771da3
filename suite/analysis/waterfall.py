"""The lost-efficiency waterfall from N0 devices to N: 100 % = efficiency + what each part added. Pure.

With timed step times T0, T (a step of the same optimiser work), profiled mean parts p0, p, and s = 1 for weak scaling,
N0 / N for strong: efficiency is s T0 / T, and

    1 = s T0 / T + sum over parts of (p - s p0) / T - ((P - T) - s (P0 - T0)) / T

because parts sum to the profiled step P. The last term is what the profiler added. What is left over by rounding or by
devices whose spans do not tile the step is unexplained, and shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EXPOSED = "exposed_communication"
LABELS = {
    "compute": "compute",
    "exposed_transfer": "exposed transfer",
    "exposed_wait": "exposed wait",
    EXPOSED: "exposed communication",
    "exposed_copy": "exposed copy",
    "input_wait": "input wait",
    "host_overhead": "host overhead",
    "idle": "idle",
    "profiler": "profiler distortion",
    "unexplained": "unexplained",
}


@dataclass(frozen=True)
class Waterfall:
    """Shares of the step on N devices; `lost` sums with `efficiency` to exactly 1 (up to one rounding of a float)."""

    efficiency: float
    lost: dict[str, float]


def waterfall(
    base: Mapping[str, Any], other: Mapping[str, Any], base_step_s: float, step_s: float, scale: float = 1.0
) -> Waterfall:
    """The waterfall from two records' breakdowns and timed mean step times; `scale` is N0 / N for strong scaling.

    Exposed communication is split into wait and transfer where both breakdowns tell it. Raises ValueError for step
    times that are not positive.
    """
    if base_step_s <= 0 or step_s <= 0:
        raise ValueError(f"step times must be positive, got {base_step_s} and {step_s} s")
    before, after = _parts(base, other), _parts(other, base)
    step_ps = step_s * 1e12
    lost = {name: (after[name] - scale * before[name]) / step_ps for name in after}
    distortion = (other["span_ps"] - step_ps) - scale * (base["span_ps"] - base_step_s * 1e12)
    lost["profiler"] = -distortion / step_ps
    efficiency = scale * base_step_s / step_s
    lost["unexplained"] = 1.0 - efficiency - sum(lost.values())
    return Waterfall(efficiency, lost)


def _parts(of: Mapping[str, Any], beside: Mapping[str, Any]) -> dict[str, float]:
    parts = {name: float(value) for name, value in of["parts"].items()}
    waits = of.get("exposed_wait_ps"), beside.get("exposed_wait_ps")
    if waits[0] is not None and waits[1] is not None:
        exposed = parts.pop(EXPOSED)
        parts["exposed_wait"] = float(waits[0])
        parts["exposed_transfer"] = exposed - float(waits[0])
    return parts
