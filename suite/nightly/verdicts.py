"""What each series says of last night: the detector's word, made calibrated, directed and free of node effects. Pure.

A series is judged on log throughput a night, its trials as replicates. `changed` becomes regressed or improved; whether
it is believed is decided over all cases of a machine together (`believe`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from tfscale.suite.analysis.judging import Judgement, judge
from tfscale.suite.analysis.significance import LEAST_P, benjamini_hochberg, standard_error, step_p
from tfscale.suite.nightly import nodes
from tfscale.suite.nightly.forms import Verdict
from tfscale.suite.nightly.series import Series
from tfscale.suite.timing.statistics import t_quantile

RECENT = 20
"""Nights in which a change is news."""
_MOST_BEFORE = 60
"""Nights of the level before a step that it is compared with."""
_ROUNDS = 2


@dataclass(frozen=True, eq=False)
class Step:
    """A change of level: nights (numbers in the series) before and after, and what their difference is worth.

    `error`: standard error of the log ratio, the nodes' uncertain effects included.
    """

    since: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    log_ratio: float
    error: float
    p: float

    @property
    def ratio(self) -> float:
        return math.exp(self.log_ratio)

    @property
    def ci95(self) -> tuple[float, float]:
        freedom = max(len(self.before) + len(self.after) - 2, 1)
        half = min(t_quantile(freedom) * self.error, 300.0)
        return math.exp(self.log_ratio - half), math.exp(self.log_ratio + half)


@dataclass(frozen=True, eq=False)
class Outcome:
    """A series, judged. `logs`: log throughput less the node's effect, NaN for nights without a result."""

    series: Series
    verdict: Verdict
    reason: str
    judgement: Judgement | None = None
    logs: "np.ndarray[tuple[int], np.dtype[np.float64]]" = field(default_factory=lambda: np.empty(0))
    effects: nodes.Effects = nodes.NONE
    step: Step | None = None
    node: str | None = None
    """The node that explains the step."""
    q: float | None = None

    def edges(self) -> list[int]:
        """[0, change, ..., n] of the levels found."""
        changes = [change.index for change in self.judgement.changes] if self.judgement else []
        return [0, *changes, len(self.series.nights)]


def outcome(series: Series, min_effect: float) -> Outcome:
    """One series by itself: nothing is believed yet that has to stand beside others."""
    if not any(night.values for night in series.nights):
        verdict: Verdict = "missing" if series.missing else "not_enough_data"
        return Outcome(series, verdict, series.missing or "no night has a result that may be counted")
    told, logs, effects = _judged(series, min_effect)
    made = Outcome(series, "unchanged", told.reason, told, logs, effects)
    if series.missing:
        return replace(made, verdict="missing", reason=series.missing)
    if told.verdict == "changed":
        return _directed(made, min_effect)
    verdicts: dict[str, Verdict] = {
        "suspicious": "suspicious",
        "unstable": "unstable",
        "drifting": "drifting",
        "not_enough_data": "not_enough_data",
        # The detector's own `missing` is about the last night alone, which a run that did not plan the case leaves out.
        "missing": "unchanged",
    }
    return replace(made, verdict=verdicts.get(told.verdict, "unchanged"))


def _judged(
    series: Series, min_effect: float
) -> tuple[Judgement, "np.ndarray[tuple[int], np.dtype[np.float64]]", nodes.Effects]:
    """Levels and node effects in turns: an effect needs levels, and levels show only without the effects."""
    nights = series.nights
    plain = np.array([math.log(night.level) if night.level else math.nan for night in nights])
    told, found = judge([list(night.values) or None for night in nights], min_effect=min_effect), nodes.NONE
    logs = plain
    for _ in range(_ROUNDS if len({night.node for night in nights if night.values}) > 1 else 0):
        present = np.flatnonzero(np.isfinite(plain) & ~np.isin(np.arange(len(nights)), told.outliers))
        edges = np.searchsorted(present, [0, *(change.index for change in told.changes), len(nights)])
        found = nodes.effects(plain[present], [nights[i].node for i in present], edges.tolist())
        shift = np.array([found.effect.get(night.node, 0.0) for night in nights])
        if not shift.any():
            break
        logs = plain - shift
        moved = [[v * math.exp(-s) for v in n.values] or None for n, s in zip(nights, shift.tolist(), strict=True)]
        told = judge(moved, min_effect=min_effect)
    return told, logs, found


def _directed(made: Outcome, min_effect: float) -> Outcome:
    """regressed where the level is worse than it was before any recent change, else what the last change says.

    A fall that was made good again is no regression; a fall of which half was made good still is one.
    """
    assert made.judgement is not None
    count = len(made.series.nights)
    edges = made.edges()
    recent = [k for k in range(1, len(edges) - 1) if edges[k] >= count - RECENT] or [len(edges) - 2]
    steps = [step for k in recent if (step := _step(made, edges[k - 1], edges[k], edges[-2])) is not None]
    if not steps:
        return replace(made, verdict="suspicious", reason="too few nights on either side of the change")
    worse = [step for step in steps if step.log_ratio <= math.log1p(-min_effect)]
    step = worse[0] if worse else steps[-1]
    back = not worse and step.log_ratio > 0 and len(steps) > 1 and abs(steps[0].log_ratio) < math.log1p(min_effect)
    reason = f"{'back at' if back else 'at'} another level since {made.series.nights[step.since].run}"
    found = replace(made, verdict="regressed" if step.log_ratio < 0 else "improved", reason=reason, step=step)
    return _blamed(found, min_effect)


def _step(made: Outcome, start: int, since: int, last: int) -> Step | None:
    """From the level [start, since) to the last level [last, n); None where one of them holds no night."""
    assert made.judgement is not None
    nights = [i for i in np.flatnonzero(np.isfinite(made.logs)).tolist() if i not in made.judgement.outliers]
    before = tuple(i for i in nights if start <= i < since)[-_MOST_BEFORE:]
    after = tuple(i for i in nights if i >= last)
    if not before or not after or len(before) + len(after) < 4:
        return None
    values = np.concatenate([made.logs[list(before)], made.logs[list(after)]])
    names = [[made.series.nights[i].node for i in side] for side in (before, after)]
    error = math.hypot(standard_error(values, len(before)), math.sqrt(made.effects.step_variance(*names)))
    difference = float(values[len(before) :].mean() - values[: len(before)].mean())
    p = step_p(abs(difference) / error if error > 0 else math.inf, values.size)
    return Step(since, before, after, difference, error, p)


def _blamed(made: Outcome, min_effect: float) -> Outcome:
    """A step that one node explains is the node's; one that begins with the first night on a new node is not told apart."""
    assert made.step is not None
    step, nights = made.step, made.series.nights
    # Beside slow nights of one node, the others look like outliers: all of them count here.
    since = [i for i in range(step.after[0], len(nights)) if np.isfinite(made.logs[i])]
    after = [nights[i].node for i in since]
    before_level = float(made.logs[list(step.before)].mean())
    known = {nights[i].node for i in step.before}
    if len(set(after)) == 1 and after[0] not in known and known != {""}:
        moved = f"every night since ran on {after[0]}, which no night before did (those: {', '.join(sorted(known))})"
        old, new = nights[step.before[-1]].trials[0].around, nights[step.after[0]].trials[0].around
        if old.software != new.software or step.log_ratio > 0:
            advice = (
                "the software changed the same night" if old.software != new.software else "it may be the faster node"
            )
            return replace(made, verdict="suspicious", reason=f"{moved}; {advice}: run one night on the old node")
        return replace(made, verdict="slow_node", node=after[0], reason=moved)
    for node in dict.fromkeys(after):
        others = [i for i in since if nights[i].node != node]
        own = [i for i in since if nights[i].node == node]
        if len(others) < 2 or len(own) < 2:
            continue
        shift = float(np.mean(made.logs[others])) - before_level
        if abs(shift) < math.log1p(min_effect) and abs(shift) < abs(step.log_ratio) / 2 and step.log_ratio < 0:
            reason = f"only nights on {node} are slower; {len(others)} nights on others since then are as before"
            return replace(made, verdict="slow_node", node=node, reason=reason)
    return made


def against(made: Outcome, run: str, min_effect: float) -> Outcome:
    """The current level against one run instead of the history: a Student t of nights, without a search.

    The noise of a night comes from the whole series where the detector tells it, else from the trials themselves.
    """
    nights = made.series.nights
    at = next((i for i, night in enumerate(nights) if night.run == run and night.values), None)
    if made.verdict == "missing":
        return made
    if at is None:
        return replace(made, verdict="not_enough_data", step=None, reason=f"the baseline {run} has no result of it")
    start = max(made.edges()[-2], at + 1, len(nights) - RECENT)
    after = tuple(i for i in range(start, len(nights)) if np.isfinite(made.logs[i]))
    if not after:
        return replace(made, verdict="unchanged", step=None, reason="the baseline is the newest night")
    difference = float(made.logs[list(after)].mean() - made.logs[at])
    noise = made.judgement.noise if made.judgement else None
    if noise is not None and noise > 0 and made.verdict != "not_enough_data":
        error = noise * math.sqrt(1 + 1 / len(after))
        freedom = max(int(np.isfinite(made.logs).sum()) - len(made.edges()) + 1, 1)
    else:
        spread = _trial_error(made.series, at, after)
        if spread is None:
            return replace(
                made, verdict="not_enough_data", step=None, reason="neither nights nor trials tell the noise"
            )
        error, freedom = spread
    from scipy.special import stdtr

    p = max(2 * float(stdtr(freedom, -abs(difference) / error)) if error > 0 else 0.0, LEAST_P)
    step = Step(start, (at,), after, difference, error, p)
    small = abs(difference) < math.log1p(min_effect)
    verdict: Verdict = "unchanged" if small else "regressed" if difference < 0 else "improved"
    return replace(made, verdict=verdict, step=step, node=None, reason=f"against {run}")


def _trial_error(series: Series, at: int, after: Sequence[int]) -> tuple[float, int] | None:
    """Standard error of a log ratio from the spread of trials within nights, and its degrees of freedom."""
    groups = [np.log(series.nights[i].values) for i in (at, *after)]
    freedom = sum(group.size - 1 for group in groups)
    if freedom < 1:
        return None
    variance = sum(float(np.sum((group - group.mean()) ** 2)) for group in groups) / freedom
    behind = sum(group.size for group in groups[1:])
    return math.sqrt(variance * (1 / groups[0].size + 1 / behind)), freedom


def believe(outcomes: Sequence[Outcome], rate: float) -> list[Outcome]:
    """False discoveries controlled over the series of one machine: what does not pass waits as suspicious.

    Series without a step count as tests that found nothing (p = 1).
    """
    tested = [o for o in outcomes if o.verdict not in ("not_enough_data", "missing")]
    stepped = [o for o in tested if o.step is not None]
    values = [o.step.p for o in stepped if o.step is not None] + [1.0] * (len(tested) - len(stepped))
    q = dict(zip(map(id, stepped), benjamini_hochberg(values), strict=False)) if values else {}
    found = []
    for one in outcomes:
        of = q.get(id(one))
        if of is None or of <= rate or one.verdict not in ("regressed", "improved"):
            found.append(replace(one, q=of))
        else:
            words = f"{one.reason}, but beside {len(tested)} series that is no surprise (q = {of:.2g})"
            found.append(replace(one, q=of, verdict="suspicious", reason=words))
    return found


def slow_nodes(outcomes: Sequence[Outcome], min_effect: float) -> list[nodes.Slow]:
    """Nodes of one machine that are slow over all the cases that ran on them, from nights between which others ran."""
    runs: dict[str, tuple[str, dict[str, float]]] = {}
    for one in outcomes:
        nights = one.series.nights
        shift = np.array([one.effects.effect.get(night.node, 0.0) for night in nights])
        for first, stop in pairwise(one.edges() if one.logs.size else [0]):
            if not np.isfinite(one.logs[first:stop]).any():
                continue
            level = float(np.nanmedian(one.logs[first:stop]))
            for i in range(first, stop):
                if np.isfinite(one.logs[i]):
                    _, cases = runs.setdefault(nights[i].run, (nights[i].node, {}))
                    cases[one.series.case_id] = float(one.logs[i] + shift[i] - level)
    ordered = [(run, node, cases) for run, (node, cases) in sorted(runs.items())]
    # A node that turned slow of late is not hidden by its nights before.
    found = [slow for window in (RECENT // 2, RECENT) for slow in nodes.slow_nodes(ordered[-window:], min_effect)]
    return list({slow.node: slow for slow in found}.values())
