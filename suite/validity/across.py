"""A case over its trials: is the interval as narrow as it must be, and do the trials tell the same story?"""

from collections.abc import Iterator, Sequence

from tfscale.suite.record import Check, Quantity, Record
from tfscale.suite.timing.trials import across_trials, half_width

WIDE = 0.10
"""Relative half-width of a step time's interval above which the case is SUSPECT."""
FEWEST_BLOCKS = 30
"""Blocks from which the autocorrelation within a trial can be told (timing/autocorrelation.py); below, an interval of
that trial is anything up to all of the value, and says nothing of the case."""
APART = 0.10
"""Largest trial mean over smallest, less 1, above which the case is SUSPECT."""


def interval(trials: Sequence[Record]) -> Iterator[Check]:
    """Not reaching the target is a note with the width reached; only an interval that says little is SUSPECT."""
    quantities = [record.quantities["step_time"] for record in trials if "step_time" in record.quantities]
    if not quantities:
        return
    step_time = across_trials(quantities)
    width = half_width(step_time)
    if width is None:
        yield Check(name="interval", status="UNKNOWN", detail=_why_none(step_time))
        return
    blocks = step_time.n_samples or 0
    if step_time.scope == "within_trial" and blocks < FEWEST_BLOCKS:
        detail = f"one trial of {blocks} blocks tells too little of its spread; {FEWEST_BLOCKS} blocks, or a second trial, do"
        told = {"half_width": width, "blocks": blocks, "n_trials": 1}
        yield Check(
            name="interval", status="UNKNOWN", detail=detail, evidence=told, advice="raise measure.budget_s or trials"
        )
        return
    target = trials[0].target
    wide = width > WIDE
    reached = "" if target is None else f", {'within' if width <= target else 'wider than'} the target of {target:.1%}"
    yield Check(
        name="interval",
        status="SUSPECT" if wide else "VALID",
        detail=f"the 95 % interval of the step time is +-{width:.1%} {_scope(step_time)}{reached}",
        evidence={"half_width": width, "target": target, "n_trials": step_time.n_trials},
        advice="more trials (measure.trials, measure.max_trials) on a machine that does nothing else" if wide else None,
    )


def _scope(step_time: Quantity) -> str:
    return f"over {step_time.n_trials} trials" if step_time.scope == "across_trials" else "within one trial"


def _why_none(step_time: Quantity) -> str:
    return f"the step time has no interval: {step_time.reason or step_time.ci_method or 'too few blocks'}"


def trials_agree(trials: Sequence[Record]) -> Iterator[Check]:
    """Independent launches of one case give one step time, give or take; which trial stands apart is named."""
    times = {r.trial: q.value for r in trials if (q := r.quantities.get("step_time")) and q.value is not None}
    if len(times) < 2:
        return
    slow, fast = max(times, key=lambda t: times[t]), min(times, key=lambda t: times[t])
    spread = times[slow] / times[fast] - 1
    yield Check(
        name="trials_agree",
        status="SUSPECT" if spread > APART else "VALID",
        detail=f"{len(times)} trials lie within {spread:.1%}: the slowest is trial {slow}, the fastest trial {fast}",
        evidence={"spread": spread, "step_times_s": {str(trial): time for trial, time in times.items()}},
        advice="look at the counters of the trials: clocks, other processes, placement" if spread > APART else None,
    )
