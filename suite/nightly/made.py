"""Outcomes as parts of the document. Reads what `causes` reads."""

import math
from collections.abc import Sequence

from tfscale.suite.analysis.judging import Judgement
from tfscale.suite.nightly import causes
from tfscale.suite.nightly.fingerprint import Machine
from tfscale.suite.nightly.forms import Beside, Cause, Finding, Judged
from tfscale.suite.nightly.nodes import Slow
from tfscale.suite.nightly.series import Series
from tfscale.suite.nightly.verdicts import Outcome
from tfscale.suite.record import Quantity
from tfscale.suite.timing.statistics import t_quantile

METRIC = "throughput"


def judged(one: Outcome) -> Judged:
    """A series in a line."""
    told = one.judgement
    return Judged(
        case_id=one.series.case_id,
        title=one.series.title,
        machine=str(one.series.machine),
        metric=METRIC,
        unit=unit_of(one.series),
        verdict=one.verdict,
        reason=one.reason,
        nights=sum(bool(night.values) for night in one.series.nights),
        last_run=next((night.run for night in reversed(one.series.nights) if night.values), None),
        level=told.level if told is not None else None,
        noise=told.noise if told is not None else None,
    )


def finding(one: Outcome, *, operations: bool) -> Finding:
    """What is to say about one series; `operations`: read profiles for what grew."""
    base = Finding(
        case_id=one.series.case_id,
        title=one.series.title,
        case=dict(one.series.case),
        machine=str(one.series.machine),
        metric=METRIC,
        verdict=one.verdict,
        reason=one.reason,
    )
    if one.verdict == "missing" or (one.verdict == "accepted" and one.step is None):
        return base.model_copy(update=_missing(one))
    if one.step is None:
        return base.model_copy(update={"reproduce": one.series.last.trials[0].reproduce})
    return base.model_copy(update=_stepped(one, operations))


def _missing(one: Outcome) -> dict[str, object]:
    nights = one.series.nights
    good = next((night for night in reversed(nights) if night.values), None)
    since = next((night.run for night in nights if good is None or night.run > good.run), None)
    failure = Cause(kind="failure", what="result", before=None, after=None, why=one.reason)
    return {
        "last_good": good.run if good is not None else None,
        "since": since,
        "causes": (failure,),
        "reproduce": good.trials[0].reproduce if good is not None else None,
        "before": _level(one, [nights.index(good)]) if good is not None else None,
    }


def _stepped(one: Outcome, operations: bool) -> dict[str, object]:
    step, nights = one.step, one.series.nights
    assert step is not None
    bad = causes.first_bad(one.series, step)
    told: dict[str, object] = {
        "before": _level(one, step.before),
        "after": _level(one, step.after),
        "ratio": step.ratio,
        "ratio_ci95": step.ci95,
        "p": step.p,
        "q": one.q,
        "last_good": nights[step.before[-1]].run,
        "since": bad.run,
        "nights": len(step.after),
        "causes": causes.causes(one.series, step),
        "explanations": causes.explanations(one.series, step),
        "operations_reason": "profiles are read for the largest findings only; `tfscale trace --against` reads two",
        "reproduce": bad.trials[0].reproduce,
    }
    if operations:
        told["operations"], told["operations_reason"] = causes.operations(one.series, step)
    return told


def _level(one: Outcome, nights: Sequence[int]) -> Quantity:
    """Geometric mean over nights; the interval is of nights, none below two."""
    logs = one.logs[list(nights)]
    centre = float(logs.mean())
    half = t_quantile(logs.size - 1) * float(logs.std(ddof=1)) / math.sqrt(logs.size) if logs.size > 1 else None
    return Quantity(
        value=math.exp(centre),
        unit=unit_of(one.series),
        kind=causes.kind_of(one.series),
        statistic="geometric mean over nights",
        n_trials=sum(len(one.series.nights[i].values) for i in nights),
        n_samples=logs.size,
        ci95=(math.exp(centre - half), math.exp(centre + half)) if half is not None and half < 300 else None,
        ci_method="Student t on log nightly means" if half is not None else None,
        scope="across_trials",
    )


def unit_of(series: Series) -> str:
    """Unit of the throughput, as its newest record gives it."""
    return next((trial.unit for night in reversed(series.nights) for trial in night.trials if trial.unit), "")


def slow_node(slow: Sequence[tuple[Machine, Slow]], outcomes: Sequence[Outcome]) -> list[Finding]:
    """One finding a node: from all cases together, and from single series of which the node explains the step."""
    found: dict[tuple[str, str], Finding] = {}
    for machine, node in slow:
        reason = (
            f"{node.runs} of the last runs were on it and are {1 - node.ratio:.1%} slower than {node.others} on others, "
            f"over {len(node.cases)} case{'s' if len(node.cases) > 1 else ''}"
        )
        found[str(machine), node.node] = _about(str(machine), node.node, reason).model_copy(
            update={"ratio": node.ratio, "ratio_ci95": node.ci95, "nights": node.runs}
        )
    for one in outcomes:
        key = (str(one.series.machine), one.node or "")
        own = finding(one, operations=False)
        if key not in found:
            update = {name: getattr(own, name) for name in ("ratio", "ratio_ci95", "nights", "since", "last_good")}
            found[key] = _about(*key, f"{one.series.title}: {one.reason}").model_copy(update=update)
    return list(found.values())


def _about(machine: str, node: str, reason: str) -> Finding:
    return Finding(
        case_id=None, title=f"node {node}", machine=machine, node=node, metric=METRIC, verdict="slow_node", reason=reason,
        reproduce="tfscale doctor",
    )  # fmt: skip


def beside(series: Series, metric: str, unit: str, told: Judgement) -> Beside:
    """A series that changed and alarms nobody."""
    change = told.changes[-1]
    return Beside(
        case_id=series.case_id, title=series.title, machine=str(series.machine), metric=metric, unit=unit,
        before=change.before, after=change.after, ratio=change.ratio,
        since=series.nights[change.index].run,
    )  # fmt: skip
