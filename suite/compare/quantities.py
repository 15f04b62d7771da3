"""Quantities of both sides of a matched case: speed, energy, memory that is left, steps to a target loss. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tfscale.suite.analysis.comparison import LogRatio, log_ratio, ratio_of
from tfscale.suite.compare.forms import Both
from tfscale.suite.compare.matching import Matched
from tfscale.suite.record import Curve, Kind, Quantity, Record, unknown
from tfscale.suite.spec import Case
from tfscale.suite.timing.trials import across_trials

HEADROOM = "1 - peak / memory, least over trials"
TO_TARGET = "first step at or below the target loss, geometric mean over seeds"


def both(matched: Matched, name: str) -> tuple[Both, LogRatio | None]:
    """The quantity `name` of the records on either side, and B over A; the latter is None where there is no ratio."""
    sides = [result.quantities.get(name) for result in matched.results]
    a, b = (one or unknown("", "derived", name, "not on every record") for one in sides)
    statistic = f"ratio of geometric means of trial {name.replace('_', ' ')}, B / A"
    reason = _undividable(a, b)
    known = values(matched, name) if reason is None else ([], [])
    if reason is None and not all(known):
        reason = "no pair has it on both sides" if matched.paired else "unknown on one side"
    if reason is None and min(*known[0], *known[1]) <= 0:
        reason = "not positive in every trial"
    if reason is not None:
        return Both(a=a, b=b, ratio=unknown("1", "derived", statistic, reason)), None
    log = log_ratio(*known, paired=matched.paired)
    return Both(a=a, b=b, ratio=ratio_of(log, _kind(a), statistic)), log


def values(matched: Matched, name: str) -> tuple[list[float], list[float]]:
    """The trials' values of `name` on either side that are known; of pairs, where both are."""

    def of(record: Record) -> float | None:
        quantity = record.quantities.get(name)
        return quantity.value if quantity else None

    first, second = [of(record) for record in matched.a], [of(record) for record in matched.b]
    if matched.paired:
        whole = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
        return [a for a, _ in whole], [b for _, b in whole]
    return [a for a in first if a is not None], [b for b in second if b is not None]


def _undividable(a: Quantity, b: Quantity) -> str | None:
    for side, quantity in (("A", a), ("B", b)):
        if quantity.value is None:
            return f"{side}: {quantity.reason}"
    if a.unit != b.unit:
        return f"A is in {a.unit}, B in {b.unit}"
    if a.kind != b.kind:
        return f"A is {a.kind}, B is {b.kind}"
    return None if a.statistic == b.statistic else f"A is the {a.statistic}, B the {b.statistic}"


def _kind(quantity: Quantity) -> Kind:
    return "derived" if quantity.kind == "measured" else quantity.kind


def headroom(matched: Matched) -> Both:
    """Memory left at the peak, as a share: of the device where its peak is known, else of the host."""
    return Both(a=_least_left(matched.a), b=_least_left(matched.b))


def _least_left(trials: Sequence[Record]) -> Quantity:
    left = [left_of(record) for record in trials]
    known = [one for one in left if one.value is not None]
    if not known:
        return left[0]
    return min(known, key=lambda one: one.value or 0.0).model_copy(update={"n_trials": len(known)})


def left_of(record: Record) -> Quantity:
    """1 - peak / memory of one trial.

    On a host, its memory (or the container's limit) is shared by the ranks on it, each taken to fill as much as the one
    that fills most, and pages that they share counted once a rank: no less is left.
    """
    device, host = (record.quantities.get(f"memory_peak_{place}") for place in ("device", "host"))
    if device is not None and device.value is not None:
        sizes = [card.get("memory_bytes") for card in record.environment.get("gpus") or ()]
        known = [size for size in sizes if isinstance(size, int)]
        if not known:
            return unknown("1", "derived", HEADROOM, "the record does not tell the accelerator's memory")
        return _left(device, device.value, min(known), "of the device")
    if host is None or host.value is None:
        return unknown("1", "derived", HEADROOM, (host.reason if host else None) or "no peak is on record")
    size = memory_of_host(record.environment)
    if size is None:
        return unknown("1", "derived", HEADROOM, "the record does not tell the host's memory")
    ranks = math.ceil(record.counts.get("ranks", 1) / int(record.case.get("hosts", 1)))
    return _left(host, host.value * ranks, size, f"of the host, {ranks} ranks" if ranks > 1 else "of the host")


def memory_of_host(environment: Mapping[str, Any]) -> int | None:
    """Bytes that processes of the host may fill: its memory, or the container's limit where that is less."""
    told = [environment.get("memory_bytes"), (environment.get("cgroup") or {}).get("memory_bytes")]
    return min((size for size in told if isinstance(size, int) and not isinstance(size, bool)), default=None)


def _left(peak: Quantity, used: float, size: int, of: str) -> Quantity:
    return Quantity(value=1 - used / size, unit="1", kind=_kind(peak), statistic=f"{HEADROOM}, {of}")


def steps_to_target(matched: Matched, curves: Sequence[Sequence[Curve]]) -> Both:
    """Steps to the target loss of either side's case, from trainings of A's run and of B's; the ratio is B / A.

    Divided seed by seed where both were held against a target that was defined alike.
    """
    mine = [
        [curve for curve in known if trials[0].case_id in curve.stands_for]
        for known, trials in zip(curves, (matched.a, matched.b), strict=True)
    ]
    a, b = (_reached(known) for known in mine)
    statistic = "ratio of steps to the target loss, B / A"
    seeds = [{curve.seed: curve.reached for curve in known} for known in mine]
    if a.value is None or b.value is None:
        missing = a.reason if a.value is None else b.reason
        return Both(a=a, b=b, ratio=unknown("1", "derived", statistic, missing or "not trained"))
    rules = {(curve.target_steps, curve.smoothing) for known in mine for curve in known}
    if len(rules) > 1 or seeds[0].keys() != seeds[1].keys():
        return Both(a=a, b=b, ratio=unknown("1", "derived", statistic, "their targets or seeds were chosen otherwise"))
    order = sorted(seeds[0])
    steps = [[float(side[seed] or 0) for seed in order] for side in seeds]
    return Both(a=a, b=b, ratio=ratio_of(log_ratio(*steps, paired=True), "derived", statistic))


def _reached(curves: Sequence[Curve]) -> Quantity:
    if not curves:
        return unknown("steps", "measured", TO_TARGET, "no training to a target loss is on record")
    late = [curve.seed for curve in curves if curve.reached is None]
    if late:
        words = ", ".join(str(seed) for seed in late)
        return unknown("steps", "measured", TO_TARGET, f"seed {words} did not come to it in {curves[0].limit} steps")
    reached = [float(curve.reached) for curve in curves if curve.reached is not None]
    each = [Quantity(value=steps, unit="steps", kind="measured", statistic=TO_TARGET) for steps in reached]
    return across_trials(each)


def devices(record: Record) -> int:
    return Case.model_validate(record.case).devices
