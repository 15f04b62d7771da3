"""From matched cases to the rows of a comparison, their geometric means, and what they cost. Pure."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from tfscale.suite.analysis import comparison, cost
from tfscale.suite.analysis.comparison import LogRatio
from tfscale.suite.compare import quantities
from tfscale.suite.compare.forms import Both, Mean, Money, Needed, Row, Swayed, Verdict
from tfscale.suite.compare.matching import Matched, differing, shared_title
from tfscale.suite.display import cell
from tfscale.suite.record import Curve, Kind, Quantity, unknown

Prices = Mapping[str, cost.Price]
COST_RATIO = "ratio of costs of a sample, B / A"
_DOUBTED = ("SUSPECT", "INVALID")


def row(matched: Matched, prices: Prices, curves: Sequence[Sequence[Curve]], effect: float) -> Row:
    """One matched case. `curves`: trainings of A's run and of B's; `effect`: the difference to find the trials for."""
    a, b = matched.a[0], matched.b[0]
    throughput, log = quantities.both(matched, "throughput")
    statuses = (matched.results[0].validity.status, matched.results[1].validity.status)
    assert throughput.ratio is not None
    verdict: Verdict = comparison.shown(throughput.ratio)
    reason = throughput.ratio.reason
    if "INVALID" in statuses:
        side = "A" if statuses[0] == "INVALID" else "B"
        verdict, log, reason = "not_compared", None, f"{side} is INVALID: its number is wrong"
        throughput = throughput.model_copy(update={"ratio": _no_ratio(reason)})
    elif log is None:
        verdict = "not_compared"
    elif verdict == "no_interval":
        reason = _no_interval(matched, log)
    return Row(
        title=shared_title(a.case, b.case),
        case_a=a.case_id,
        case_b=b.case_id,
        axes=differing(a.case, b.case),
        devices=(quantities.devices(a), quantities.devices(b)),
        paired=matched.paired,
        trials_a=tuple(record.id for record in matched.a),
        trials_b=tuple(record.id for record in matched.b),
        throughput=throughput,
        step_time=_unless_invalid(quantities.both(matched, "step_time")[0], verdict, reason),
        verdict=verdict,
        reason=reason,
        needed=needed(matched, effect) if verdict in ("no_difference_shown", "no_interval") else None,
        energy=_unless_invalid(quantities.both(matched, "energy_per_sample")[0], verdict, reason),
        cost=costs(throughput, prices, (quantities.devices(a), quantities.devices(b))),
        memory_headroom=quantities.headroom(matched),
        steps_to_target=quantities.steps_to_target(matched, curves),
        validity=statuses,
        doubts=_doubts(matched),
    )


def _unless_invalid(found: Both, verdict: Verdict, reason: str | None) -> Both:
    return found.model_copy(update={"ratio": _no_ratio(reason or "")}) if verdict == "not_compared" else found


def _no_ratio(reason: str) -> Quantity:
    return unknown("1", "derived", comparison.STATISTIC, reason)


def _no_interval(matched: Matched, log: LogRatio) -> str:
    if log.trials >= 2:
        return "trials differ so wildly that the interval has no upper end"
    sizes = f"{len(matched.a)} of A, {len(matched.b)} of B"
    what = "1 pair" if matched.paired else f"trials: {sizes}"
    return f"{what}; an interval needs 2 at least, because launches differ and one tells nothing of how much"


def _doubts(matched: Matched) -> tuple[str, ...]:
    told = [
        f"{side}: {check.name}: {check.detail}"
        for side, result in zip("AB", matched.results, strict=True)
        for check in result.validity.checks
        if check.status in _DOUBTED
    ]
    return tuple(dict.fromkeys(told))


def needed(matched: Matched, effect: float) -> Needed:
    """Trials a side (or pairs) that would show `effect`, from the spread of those at hand."""
    values = quantities.values(matched, "throughput")
    fewest, most = min(map(len, values)), comparison.MOST_TRIALS
    what = "pairs" if matched.paired else "trials of each side"
    shared = {"effect": effect, "power": comparison.POWER, "most": most}
    if fewest < 2:
        reason = f"the spread between trials is not known from {fewest} of a side"
        return Needed(trials=None, reason=reason, **shared)
    count = comparison.trials_needed(*values, paired=matched.paired, effect=effect)
    spread = f"{what}, from the spread of {fewest}" if matched.paired else f"{what}, from the spread of {_of(values)}"
    return Needed(trials=count, reason=spread + (" (a rough estimate)" if fewest < 5 else ""), **shared)


def _of(values: Sequence[Sequence[float]]) -> str:
    return " and ".join(str(len(side)) for side in values)


def costs(throughput: Both, prices: Prices, devices: tuple[int, int]) -> Both:
    """Cost of a million samples on both sides, and B over A where both have a price."""
    sides = []
    named: tuple[Literal["A"], Literal["B"]] = ("A", "B")
    for side, quantity, count in zip(named, (throughput.a, throughput.b), devices, strict=True):
        price = prices.get(side)
        if price is None:
            reason = f"no price of {side} was given (--price {side}=VALUECURRENCY/device-hour@DATE)"
            sides.append(unknown("", "derived", "price x devices / throughput", reason))
        else:
            sides.append(cost.cost_per_million(price, count, quantity))
    return Both(a=sides[0], b=sides[1], ratio=_cost_ratio(throughput, prices, devices, sides))


def _cost_ratio(throughput: Both, prices: Prices, devices: tuple[int, int], sides: Sequence[Quantity]) -> Quantity:
    speed = throughput.ratio
    missing = next((side.reason for side in sides if side.value is None), None)
    if missing is None and (speed is None or speed.value is None):
        missing = (speed.reason if speed else None) or "no ratio of throughputs"
    if missing is not None or speed is None or speed.value is None:
        return unknown("1", "derived", COST_RATIO, missing or "unknown")
    factor = prices["B"].value * devices[1] / (prices["A"].value * devices[0])
    interval = (factor / speed.ci95[1], factor / speed.ci95[0]) if speed.ci95 else None
    return speed.model_copy(update={"value": factor / speed.value, "ci95": interval, "statistic": COST_RATIO})


def means(rows: Sequence[Row], matched: Sequence[Matched]) -> list[Mean]:
    """A geometric mean over the rows that set the same values against each other; rows without a ratio are left out."""
    groups: dict[str, list[tuple[Row, Matched]]] = {}
    for one, of in zip(rows, matched, strict=True):
        if one.verdict != "not_compared":
            groups.setdefault(json.dumps(one.axes, sort_keys=True, default=str), []).append((one, of))
    return [_mean(group, _named(group[0][0].axes) if len(groups) > 1 else "") for group in groups.values()]


def _mean(group: Sequence[tuple[Row, Matched]], of: str) -> Mean:
    kinds: set[Kind] = {row.throughput.ratio.kind for row, _ in group if row.throughput.ratio is not None}
    members = tuple((row.case_a, row.case_b) for row, _ in group)
    if len(kinds) > 1:
        reason = f"its members are of different kinds: {', '.join(sorted(kinds))}"
        return Mean(
            of=of, ratio=unknown("1", "derived", comparison.MEAN, reason), verdict="not_compared", members=members
        )
    logs = [comparison.log_ratio(*quantities.values(m, "throughput"), paired=m.paired) for _, m in group]
    ratio = comparison.geometric_mean(logs, kinds.pop())
    return Mean(of=of, ratio=ratio, verdict=comparison.shown(ratio), members=members)


def _named(axes: Mapping[str, tuple[Any, Any]]) -> str:
    return ", ".join(f"{axis} {cell(a)} -> {cell(b)}" for axis, (a, b) in axes.items())


def money(rows: Sequence[Row], matched: Sequence[Matched], prices: Prices) -> Money | None:
    """Cost over all compared rows, each counted alike; None where no price was given."""
    if not prices:
        return None
    named: dict[Literal["A", "B"], cost.Price] = {side: prices[side] for side in ("A", "B") if side in prices}
    usable = [
        (row, of) for row, of in zip(rows, matched, strict=True) if row.cost.ratio and row.cost.ratio.value is not None
    ]
    if not usable:
        reason = (
            next((row.cost.ratio.reason for row in rows if row.cost.ratio), None) or "no row has a cost on both sides"
        )
        ratio = unknown("1", "derived", COST_RATIO, reason)
        return Money(prices=named, ratio=ratio, break_even=None, swayed=(), rank_changes=None)
    logs = [_cost_log(row, of) for row, of in usable]
    ratio = comparison.geometric_mean(logs).model_copy(update={"statistic": f"geometric mean, {COST_RATIO}"})
    assert ratio.value is not None
    swayed = cost.swayed(ratio.value)
    return Money(
        prices=named,
        ratio=ratio,
        break_even=prices["B"].value / prices["A"].value / ratio.value,
        swayed=tuple(Swayed(change_a=a, change_b=b, ratio=value) for (a, b), value in swayed.items()),
        rank_changes=cost.rank_changes(swayed),
    )


def _cost_log(row: Row, matched: Matched) -> LogRatio:
    """The log ratio of the costs: minus that of the throughputs, shifted by prices and devices, with the same error."""
    log = comparison.log_ratio(*quantities.values(matched, "throughput"), paired=matched.paired)
    assert row.cost.ratio is not None and row.cost.ratio.value is not None
    return replace(log, centre=math.log(row.cost.ratio.value))
