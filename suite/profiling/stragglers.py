"""Which rank holds the others up, if any: a one-sided test on its lateness over steps, and where its time went.

A collective makes all ranks' steps equally long, so step times do not show a slow rank; who arrives last does. The
unit is the step, because collectives within a step are not independent. Pure, given the analysed trace.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfscale.suite.profiling.analysed import Analysed, DeviceAnswer
from tfscale.suite.profiling.breakdown import break_down
from tfscale.suite.profiling.calls import rank_name
from tfscale.suite.profiling.collectives import ANONYMOUS, Collective

ALPHA = 0.05
LEAST_SHARE = 0.01
"""Of the step time; less is not worth anybody's night."""
MOST_EXACT = 50
CAUSES = {
    "compute": "compute",
    "exposed_copy": "copy",
    "input_wait": "input",
    "host_overhead": "host",
    "idle": "host",
}


@dataclass(frozen=True)
class Straggler:
    """A rank that is late. Lateness: its arrival less the latest arrival of the others, mean over steps."""

    rank: str
    lateness_ps: float
    share: float
    """Of the mean step time."""
    p: float
    """One-sided, adjusted for the number of ranks (Holm)."""
    steps: int
    causes_ps: dict[str, float] | None
    """Mean excess before its arrival over the other ranks, by cause; None where the parts are not known."""
    cause: str | None


@dataclass(frozen=True)
class Verdict:
    """`answer`: stragglers, none, too few steps, not comparable, one rank."""

    answer: str
    reason: str
    stragglers: tuple[Straggler, ...] = ()


def signed_rank_p(values: Sequence[float]) -> float:
    """One-sided p that the values' centre is above 0: Wilcoxon's signed-rank test (Wilcoxon 1945).

    Zeros are left out, ties get their mean rank. Up to MOST_EXACT values over all signs, given the ranks; above by the
    normal distribution of the same mean and variance. Written here because importing scipy.stats takes a second.
    """
    nonzero = np.array([value for value in values if value != 0])
    if not nonzero.size:
        return 1.0
    magnitude = np.sort(np.abs(nonzero))
    # Twice the ranks, which are whole numbers with ties too.
    below, upto = (np.searchsorted(magnitude, np.abs(nonzero), side=side) for side in ("left", "right"))
    ranks = below + upto + 1
    observed, total = int(ranks[nonzero > 0].sum()), int(ranks.sum())
    if nonzero.size > MOST_EXACT:
        deviation = math.sqrt(float((ranks**2).sum())) / 2
        return math.erfc((observed - total / 2) / deviation / math.sqrt(2)) / 2
    ways = np.zeros(total + 1)
    ways[0] = 1
    for rank in ranks.tolist():
        ways[rank:] += ways[:-rank].copy()
    return float(ways[observed:].sum() / ways.sum())


def holm(ps: Sequence[float]) -> list[float]:
    """p values adjusted for their number (Holm 1979): step-down, monotone, at most 1."""
    order = np.argsort(ps)
    adjusted = np.empty(len(ps))
    running = 0.0
    for place, index in enumerate(order):
        running = max(running, min(1.0, (len(ps) - place) * ps[index]))
        adjusted[index] = running
    return [float(p) for p in adjusted]


def find(analysed: Analysed, collectives: Sequence[Collective]) -> Verdict:
    """The stragglers of a trace of several ranks."""
    ranks = sorted({rank for collective in collectives for rank in collective.arrivals_ps})
    if len(ranks) < 2:
        return Verdict("one rank", "stragglers are told by comparing ranks, and collectives of one rank were seen")
    if any(ANONYMOUS in rank for rank in ranks):
        return Verdict("not comparable", "replicas of one process cannot be told apart in this trace")
    lateness, steps = _lateness(collectives, ranks)
    if lateness is None:
        return Verdict("not comparable", "no step has a collective in which every rank's arrival is known on one clock")
    count = lateness.shape[0]
    if len(ranks) * 0.5**count > ALPHA:
        return Verdict("too few steps", f"{count} steps of {len(ranks)} ranks cannot show a straggler at {ALPHA:.0%}")
    step_ps = _mean_step(analysed)
    # An offset between clocks that is wrong is wrong in every step, so no test sees it.
    error_ps = max((one.waits_bound_ps or 0 for one in collectives), default=0)
    ps = holm([signed_rank_p(lateness[:, i].tolist()) for i in range(len(ranks))])
    found = []
    for i, rank in enumerate(ranks):
        late = float(lateness[:, i].mean())
        if ps[i] < ALPHA and step_ps and late >= LEAST_SHARE * step_ps and late > error_ps:
            causes = _causes(analysed, collectives, rank, steps)
            cause = max(causes, key=lambda name: causes[name]) if causes else None
            found.append(Straggler(rank, late, late / step_ps, ps[i], count, causes, cause))
    if found:
        return Verdict("stragglers", f"{len(found)} of {len(ranks)} ranks over {count} steps", tuple(found))
    return Verdict(
        "none",
        f"no rank of {len(ranks)} is late beyond chance and {LEAST_SHARE:.0%} of the step in {count} steps"
        + (f", or beyond the clocks' error of {error_ps / 1e9:.3f} ms" if error_ps else ""),
    )


def _lateness(collectives: Sequence[Collective], ranks: list[str]) -> tuple[Any, list[int]]:
    """(steps, ranks) array: arrival less the latest of the others, mean over the step's collectives; its step numbers."""
    by_step: dict[int, list[list[float]]] = {}
    for collective in collectives:
        complete = collective.step is not None and collective.waits_ps is not None
        if not complete or set(collective.arrivals_ps) != set(ranks):
            continue
        arrivals = np.array([collective.arrivals_ps[rank] for rank in ranks], np.int64)
        others = [int(np.delete(arrivals, i).max()) for i in range(len(ranks))]
        assert collective.step is not None
        by_step.setdefault(collective.step, []).append([float(a - o) for a, o in zip(arrivals, others, strict=True)])
    if not by_step:
        return None, []
    steps = sorted(by_step)
    return np.array([np.mean(by_step[step], axis=0) for step in steps]), steps


def _mean_step(analysed: Analysed) -> float:
    spans = [part.span_ps for host in analysed.hosts for device in host.devices for part in device.parts]
    return float(np.mean(spans)) if spans else 0.0


def _causes(
    analysed: Analysed, collectives: Sequence[Collective], rank: str, steps: list[int]
) -> dict[str, float] | None:
    """Mean excess of each part between the step's begin and the first collective's arrival, over the other ranks' mean.

    What a rank does before it arrives is what makes it late; the wait afterwards is the others'.
    """
    first: dict[int, Collective] = {}
    for collective in collectives:
        if collective.step in steps and collective.step is not None:
            first.setdefault(collective.step, collective)
    excess: dict[str, list[float]] = {}
    for step, collective in first.items():
        before = {
            name: parts
            for name, at in collective.arrivals_ps.items()
            if (parts := _before(analysed, collective, name, step, at)) is not None
        }
        if rank not in before or len(before) < 2:
            continue
        for part in CAUSES:
            others = np.mean([parts[part] for name, parts in before.items() if name != rank])
            excess.setdefault(CAUSES[part], []).append(before[rank][part] - float(others))
    if not excess:
        return None
    count = len(first)
    return {cause: sum(values) / count for cause, values in excess.items()}


def _before(analysed: Analysed, collective: Collective, rank: str, step: int, arrival_ps: int) -> dict[str, int] | None:
    """The parts of a rank's device between the begin of a step and its arrival."""
    device, shift = _device_of(analysed, rank)
    if device is None:
        return None
    at = np.flatnonzero(device.steps.number == step)
    if not at.size:
        return None
    start = int(device.steps.start[at[0]])
    end = max(arrival_ps - shift, start)
    return break_down(device.exclusive, [start], [end])[0].parts


def _device_of(analysed: Analysed, rank: str) -> tuple[DeviceAnswer | None, int]:
    for host in analysed.hosts:
        for device in host.devices:
            if rank == rank_name(analysed, host, device):
                return device, host.shift_ps
    return None, 0
