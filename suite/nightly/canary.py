"""The gate's own false-alarm rate: pairs of cases that do the same work under two ids. Pure.

Two cases that differ in `seed` alone have other weights and the same work, so whatever tells them apart is false. Each
night their trials are compared, and the detector looks at the series of their ratio as it would at any.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tfscale.suite.analysis.judging import judge
from tfscale.suite.nightly.forms import Canary
from tfscale.suite.nightly.series import Night, Series
from tfscale.suite.timing.trials import welch_half_width

FEWEST, RECENT, SAME = 20, 20, 5
"""Points from which the detector's word counts; in which a change is news; within which it is the same news."""
_MOST_NIGHTS = 180
_NONE = "no two cases differ in `seed` alone; an `include` entry with `seed: 1` beside a case of the suite makes such a pair"


def pairs(series: Sequence[Series]) -> list[tuple[Series, Series]]:
    """Neighbours among the series of a machine whose cases are the same but for their seed."""
    groups: dict[tuple[object, ...], list[Series]] = {}
    for one in series:
        work = {axis: value for axis, value in one.case.items() if axis != "seed"}
        groups.setdefault((one.machine, one.resolved, json.dumps(work, sort_keys=True)), []).append(one)
    return [pair for same in groups.values() for pair in zip(same[::2], same[1::2], strict=False)]


def canary(series: Sequence[Series], min_effect: float) -> Canary:
    """What the gate says of all pairs."""
    found = pairs(series)
    compared: list[bool] = []
    count = Count()
    for one, other in found:
        nights = _common(one, other)[-_MOST_NIGHTS:]
        compared += [_differ(a, b) for a, b in nights if min(len(a.values), len(b.values)) > 1]
        count.add(replay([math.log(a.level / b.level) for a, b in nights if a.level and b.level], min_effect))
    return Canary(
        pairs=len(found),
        nights=len(compared),
        differing=sum(compared),
        differing_ci95=interval(sum(compared), len(compared)),
        series_nights=count.nights,
        false_alarms=count.alarms,
        false_alarm_rate=count.alarms / count.nights if count.nights else None,
        false_alarm_ci95=interval(count.alarms, count.nights),
        reason=_NONE if not found else None if count.nights else f"no pair has {FEWEST} nights yet",
    )


@dataclass
class Count:
    """Nights looked at, and false alarms among them."""

    nights: int = 0
    alarms: int = 0
    at: list[int] = field(default_factory=list)

    def add(self, other: "Count") -> None:
        self.nights, self.alarms = self.nights + other.nights, self.alarms + other.alarms


def replay(logs: Sequence[float], min_effect: float) -> Count:
    """The detector on every prefix of a series of logarithms that does not change: what it reports is false.

    An alarm is a change in the last RECENT points, with none told within SAME points before.
    """
    count = Count()
    told: list[int] = []
    for n in range(FEWEST, len(logs) + 1):
        count.nights += 1
        word = judge([math.exp(value) for value in logs[:n]], min_effect=min_effect)
        news = [c.index for c in word.changes if c.index >= n - RECENT] if word.verdict == "changed" else []
        fresh = [index for index in news if all(abs(index - known) > SAME for known in told)]
        told += fresh
        count.alarms += bool(fresh)
        count.at += [n] * bool(fresh)
    return count


def interval(events: int, trials: int) -> tuple[float, float] | None:
    """95 % interval of a probability from `events` among `trials` (Clopper and Pearson 1934); None without trials."""
    if not trials:
        return None
    from scipy.special import betaincinv

    low = float(betaincinv(events, trials - events + 1, 0.025)) if events else 0.0
    high = float(betaincinv(events + 1, trials - events, 0.975)) if events < trials else 1.0
    return low, high


def _common(one: Series, other: Series) -> list[tuple[Night, Night]]:
    theirs = {night.run: night for night in other.nights if night.values}
    return [(night, theirs[night.run]) for night in one.nights if night.values and night.run in theirs]


def _differ(one: Night, other: Night) -> bool:
    logs = [np.log(night.values) for night in (one, other)]
    return abs(float(logs[0].mean() - logs[1].mean())) > welch_half_width(*logs)
