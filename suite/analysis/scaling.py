"""Scaling efficiency and MFU: pure functions of throughputs and step times."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tfscale.suite.record import Quantity, unknown
from tfscale.suite.timing.trials import WELCH, welch_half_width

Mode = Literal["weak", "strong", "accumulated"]

BASELINES = ("one_device", "one_node", "independent")
"""Named baselines: they may differ from the curve in strategy and in how gradients travel, and in nothing else."""
_BASELINE_MAY_DIFFER = frozenset({"strategy", "exchange", "collective"})
_FIXED_BATCH: Mapping[str, frozenset[str]] = {
    "weak": frozenset({"per_replica_batch"}),
    "strong": frozenset({"global_batch"}),
    "accumulated": frozenset({"global_batch", "per_replica_batch"}),
}
_MAY_VARY: Mapping[str, frozenset[str]] = {
    "weak": frozenset({"global_batch"}),
    "strong": frozenset({"per_replica_batch"}),
    "accumulated": frozenset({"accumulation"}),
}
PROPAGATED = "ends' log intervals in quadrature"


class MixedCurveError(ValueError):
    """Two points that no scaling curve may join; the message names what differs."""


@dataclass(frozen=True)
class ThroughputPoint:
    """One case as a point of a scaling curve. `throughput` in samples per second of the whole job.

    `key` holds everything that must not change along a curve: strategy, workload, preset, per_replica_batch,
    global_batch, accumulation, effective_math, xla, exchange (what `auto` came down to), clock_policy, hardware, ...
    (devices and hosts are not in it; `mode` only where a point belongs to one mode alone, which one device does not).
    `trials` are the throughputs of the trials where they are known, for Welch's interval.
    """

    devices: int
    throughput: Quantity
    key: Mapping[str, Any]
    trials: tuple[float, ...] = field(default=())


@dataclass(frozen=True)
class Efficiency:
    """Scaling efficiency from a baseline to `devices`, with all that is needed to read it."""

    value: Quantity
    mode: Mode
    baseline: str
    """A named baseline, or `<n> devices` of the curve itself."""
    baseline_devices: int
    devices: int
    per_replica_batch: int | None
    superlinear: bool
    """E > 1: reported as it is, and flagged, because it says that the baseline is slower than it need be."""


def efficiency(baseline: ThroughputPoint, point: ThroughputPoint, *, mode: Mode, name: str | None = None) -> Efficiency:
    """E = X(N) N0 / (X(N0) N), with an interval from both ends, from `baseline` (N0) to `point` (N).

    `name` is one of BASELINES, whose strategy and exchange may differ, or None for the smallest point of the same
    curve. The interval is Welch's on log trial throughputs where both ends have trials, else the ends' own intervals
    in quadrature on logarithms, `within_trial` unless both are across trials. The value is null, with the reason,
    where a throughput is. Raises MixedCurveError (a ValueError) for ends that differ in what must not change.
    """
    require_comparable(baseline, point, mode=mode, name=name)
    value = _efficiency(baseline, point)
    return Efficiency(
        value=value,
        mode=mode,
        baseline=name or f"{baseline.devices} devices",
        baseline_devices=baseline.devices,
        devices=point.devices,
        per_replica_batch=point.key.get("per_replica_batch"),
        superlinear=value.value is not None and value.value > 1,
    )


def curve(
    points: Sequence[ThroughputPoint], *, mode: Mode, baseline: ThroughputPoint | None = None, name: str | None = None
) -> list[Efficiency]:
    """Efficiency of every point, by rising number of devices, from `baseline` or else from the smallest point.

    Raises MixedCurveError where any two of them must not be joined, ValueError for no points.
    """
    if not points:
        raise ValueError("a scaling curve needs at least one point")
    ordered = sorted(points, key=lambda point: point.devices)
    for point in ordered[1:]:
        require_comparable(ordered[0], point, mode=mode)
    return [efficiency(baseline or ordered[0], point, mode=mode, name=name if baseline else None) for point in ordered]


def require_comparable(
    baseline: ThroughputPoint, point: ThroughputPoint, *, mode: Mode, name: str | None = None
) -> None:
    """Raise MixedCurveError, naming every difference, unless one curve may join both points."""
    if name is not None and name not in BASELINES:
        raise ValueError(f"baseline must be one of {', '.join(BASELINES)}, got {name!r}")
    may_differ = _MAY_VARY[mode] | (_BASELINE_MAY_DIFFER if name else frozenset())
    for end in (baseline, point):
        if end.key.get("mode", mode) != mode:
            raise MixedCurveError(f"a point of {end.key['mode']} scaling cannot be on a {mode} scaling curve")
    if name in ("one_device", "independent") and baseline.key.get("strategy", name) != name:
        raise MixedCurveError(f"the baseline {name} was measured with strategy {baseline.key['strategy']!r}")
    names = sorted((set(baseline.key) | set(point.key)) - may_differ - {"mode"})
    differences = [
        f"{key} ({baseline.key.get(key)!r} and {point.key.get(key)!r})"
        for key in names
        if baseline.key.get(key) != point.key.get(key)
    ]
    if differences:
        raise MixedCurveError(f"a {mode} scaling curve cannot mix {', '.join(differences)}")
    missing = [key for key in sorted(_FIXED_BATCH[mode]) if point.key.get(key) is None]
    if missing:
        raise MixedCurveError(f"{mode} scaling needs to know {' and '.join(missing)}, which its points do not say")


def _efficiency(baseline: ThroughputPoint, point: ThroughputPoint) -> Quantity:
    for end in (baseline, point):
        if end.throughput.value is None:
            reason = f"no throughput at {end.devices} devices: {end.throughput.reason}"
            return unknown("1", "derived", "scaling efficiency", reason)
    if baseline.throughput.kind != point.throughput.kind:
        reason = f"one throughput is {baseline.throughput.kind}, the other {point.throughput.kind}"
        return unknown("1", "derived", "scaling efficiency", reason)
    assert baseline.throughput.value is not None and point.throughput.value is not None
    value = point.throughput.value * baseline.devices / (baseline.throughput.value * point.devices)
    half, method = _log_half_width(baseline, point)
    scopes = {baseline.throughput.scope, point.throughput.scope}
    across = method == WELCH or scopes == {"across_trials"}
    return Quantity(
        value=value,
        unit="1",
        kind="derived" if point.throughput.kind == "measured" else point.throughput.kind,
        statistic="scaling efficiency",
        n_trials=min(baseline.throughput.n_trials, point.throughput.n_trials),
        ci95=None if half is None else (value * math.exp(-half), value * math.exp(half)),
        ci_method=method,
        scope="across_trials" if across else "within_trial",
    )


def _log_half_width(baseline: ThroughputPoint, point: ThroughputPoint) -> tuple[float | None, str | None]:
    """Half-width of the interval of ln E, and how it was found; a point against itself has none to speak of (0)."""
    if baseline is point:
        return 0.0, "exact: the baseline against itself"
    if min(len(baseline.trials), len(point.trials)) >= 2:
        return welch_half_width(np.log(baseline.trials), np.log(point.trials)), WELCH
    halves = []
    for interval in (baseline.throughput.ci95, point.throughput.ci95):
        if interval is None or interval[0] <= 0:
            return None, None
        halves.append(math.log(interval[1] / interval[0]) / 2)
    return math.hypot(*halves), PROPAGATED


def mfu(flops_per_step: float, step_time: Quantity, replicas: int, peak: float | None, *, reason: str = "") -> Quantity:
    """Model FLOPs utilisation: FLOPs per step / (step time x replicas x dense peak per replica), a fraction.

    `flops_per_step` of the whole global batch, without recomputation (PaLM, Chowdhery et al. 2022, appendix B);
    `peak` in FLOP/s of the effective math of one replica, or None, with the `reason`, where nobody knows it.
    """
    if peak is None:
        return unknown("1", "derived", "mfu", reason or "the peak of this device and precision is not known")
    if step_time.value is None:
        return unknown("1", "derived", "mfu", step_time.reason or "no step time")
    ideal_s = flops_per_step / (replicas * peak)
    interval = step_time.ci95 if step_time.ci95 and step_time.ci95[0] > 0 else None
    return step_time.model_copy(
        update={
            "value": ideal_s / step_time.value,
            "unit": "1",
            "kind": "derived" if step_time.kind == "measured" else step_time.kind,
            "statistic": "mfu",
            "ci95": (ideal_s / interval[1], ideal_s / interval[0]) if interval else None,
            "ci_method": step_time.ci_method if interval else None,
        }
    )
