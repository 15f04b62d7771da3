"""The trainings to a target loss of a run, as its cases see them."""

from dataclasses import dataclass

from tfscale.reports import frames, text
from tfscale.reports.networks import network_of
from tfscale.suite.analysis import convergence
from tfscale.suite.record import CaseResult, Curve, Quantity, Run, unknown


@dataclass(frozen=True)
class Told:
    """What the trainings tell of one case. `exact`: they are those of `none`, whose losses it shares."""

    found: convergence.Convergence
    exact: bool


@dataclass(frozen=True)
class Apart:
    """An asynchronous case against the mean of all replicas' gradients."""

    case_id: str
    title: str
    words: str
    detail: str


def told(run: Run, case_id: str) -> Told | None:
    """Convergence of a case over the seeds that were trained for it; None where none was."""
    mine = [curve for curve in run.curves if case_id in curve.stands_for]
    pairs = _pairs(run, mine)
    if not pairs:
        return None
    return Told(convergence.convergence(pairs, mine[0].limit), exact=mine[0].base is None)


def _pairs(run: Run, mine: list[Curve]) -> list[convergence.Paired]:
    """Each seed with that of its base; a base, which has none, is paired with itself."""
    bases = {curve.case_id: curve for curve in run.curves if curve.base is None}
    made = []
    for curve in mine:
        base = bases.get(curve.base) if curve.base else curve
        if base is not None and base.reached is not None:
            made.append(convergence.Paired(curve.seed, base.reached, curve.reached))
    return made


def lead(run: Run) -> str:
    """How the target of this run is defined, or nothing."""
    if not run.curves:
        return ""
    one = run.curves[0]
    seeds = len({curve.seed for curve in run.curves})
    return (
        f"Target: the loss that none has after {one.target_steps} steps, mean of {one.smoothing}; "
        f"{text.plural(seeds, 'seed')}. Steps are counted on an unshaped link, which changes no loss; "
        f"time is steps times the step time measured on the case's own link (derived). Given up after {one.limit} steps."
    )


def apart(run: Run) -> list[Apart]:
    """The asynchronous cases that were trained: what they gain and cost, with their staleness."""
    by_id = {result.case_id: result for result in run.cases}
    curves = {curve.case_id: curve for curve in run.curves}
    made = []
    for case_id, result in by_id.items():
        mine = [curve for curve in run.curves if case_id in curve.stands_for and curve.staleness is not None]
        found = told(run, case_id)
        if mine and found is not None:
            base = next((curves[curve.base] for curve in mine if curve.base in curves), None)
            made.append(_apart(result, found, mine, base, by_id))
    return made


def _apart(
    result: CaseResult, found: Told, mine: list[Curve], base: Curve | None, by_id: dict[str, CaseResult]
) -> Apart:
    case = frames.case_of(result.case)
    stale = [curve.staleness for curve in mine if curve.staleness is not None]
    known = [one.value for one in stale if one.value is not None]
    words = (
        f"staleness {text.number(sum(known) / len(known), 3)} updates (measured, mean over seeds)"
        if known
        else f"staleness unknown: {stale[0].reason}"
    )
    twins = [by_id[name] for name in (base.stands_for if base else ()) if name in by_id]
    twin = next((one for one in twins if network_of(frames.case_of(one.case)) == network_of(case)), None)
    return Apart(
        case_id=result.case_id,
        title=case.title,
        words=convergence.sentence(_faster(twin, result), found.found),
        detail=f"{words}; a step is one of any worker, on that worker's batch",
    )


def _faster(base: CaseResult | None, mine: CaseResult) -> Quantity:
    """Step time of the base over its own."""
    if base is None:
        return unknown("1", "derived", "ratio", "the run has no case of the exact exchange on this network")
    steps = [one.quantities.get("step_time") for one in (base, mine)]
    known = [one.value for one in steps if one is not None and one.value]
    if len(known) < 2:
        return unknown("1", "derived", "ratio", "a step time is not on the record")
    return Quantity(value=known[0] / known[1], unit="1", kind="derived", statistic="ratio of step times")
