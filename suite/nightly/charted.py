"""What a chart of a finding needs, from the series behind it. Pure."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfscale.suite.environment.diff import Change, differences
from tfscale.suite.nightly.causes import LIKELY
from tfscale.suite.nightly.gate import Answer
from tfscale.suite.nightly.series import Night
from tfscale.suite.nightly.verdicts import Outcome

MOST_NIGHTS = 180


@dataclass(frozen=True)
class Point:
    """One night: its number on the chart, its run, and its level with the lowest and highest trial."""

    night: int
    run: str
    level: float
    low: float
    high: float
    node: str
    outlier: bool
    suspect: bool


@dataclass(frozen=True)
class Chart:
    """A series over at most MOST_NIGHTS nights. `levels`: (first night, last night, throughput)."""

    case_id: str
    title: str
    machine: str
    unit: str
    runs: tuple[str, ...]
    points: tuple[Point, ...]
    levels: tuple[tuple[int, int, float], ...]
    noise: float | None
    """Standard deviation of a night, as a fraction."""
    marks: tuple[tuple[int, str], ...]
    """(night, what changed with it) of software and settings."""
    since: int | None
    missing: tuple[int, ...]
    """Nights that were to run and have no value."""


def charted(found: Answer) -> list[Chart]:
    """One chart a finding about a case, in the order of the findings."""
    known = {(o.series.case_id, o.series.title, str(o.series.machine)): o for o in found.outcomes}
    keys = dict.fromkeys((f.case_id, f.title, f.machine) for f in found.gate.findings if f.case_id is not None)
    about = [known[key] for key in keys if key in known]
    slow = [o for o in found.outcomes if o.verdict == "slow_node"]
    return [chart(one) for one in dict.fromkeys([*about, *slow])]


def chart(one: Outcome) -> Chart:
    """The last nights of a series."""
    nights = one.series.nights
    start = max(len(nights) - MOST_NIGHTS, 0)
    outliers = set(one.judgement.outliers) if one.judgement else set()
    points = [_point(i - start, nights[i], i in outliers) for i in range(start, len(nights)) if nights[i].values]
    shown = [(max(first, start), stop, level) for first, stop, level in _levels(one) if stop > start]
    return Chart(
        case_id=one.series.case_id,
        title=one.series.title,
        machine=str(one.series.machine),
        unit=next((t.unit for night in nights for t in night.trials if t.unit), ""),
        runs=tuple(night.run for night in nights[start:]),
        points=tuple(points),
        levels=tuple((first - start, stop - 1 - start, level) for first, stop, level in shown),
        noise=one.judgement.noise if one.judgement else None,
        marks=tuple((i - start, words) for i, words in _marks(nights) if i >= start),
        since=one.step.since - start if one.step is not None and one.step.since >= start else None,
        missing=tuple(i - start for i in range(start, len(nights)) if not nights[i].values),
    )


def _point(at: int, night: Night, outlier: bool) -> Point:
    level = night.level
    assert level is not None
    return Point(at, night.run, level, min(night.values), max(night.values), night.node, outlier, night.suspect)


def _levels(one: Outcome) -> list[tuple[int, int, float]]:
    """(first night, behind the last, throughput) of each level: the geometric mean without outliers."""
    edges, lines = one.edges(), []
    outliers = set(one.judgement.outliers) if one.judgement else set()
    for first, stop in itertools.pairwise(edges):
        own = [float(one.logs[i]) for i in range(first, min(stop, one.logs.size)) if i not in outliers]
        known = [value for value in own if math.isfinite(value)]
        if known:
            lines.append((first, stop, math.exp(sum(known) / len(known))))
    return lines


def _marks(nights: list[Night]) -> list[tuple[int, str]]:
    """Nights with which a driver, library, kernel or code changed, and what."""
    found, before = [], None
    for i, night in enumerate(nights):
        if not night.trials:
            continue
        software = night.trials[0].around.software
        if before is not None and software is not before and software != before:
            changes = [_words(c) for c in differences(before, software) if c.known == "both" and c.weight >= LIKELY]
            if changes:
                found.append((i, "; ".join(changes[:3]) + (" ..." if len(changes) > 3 else "")))
        before = software
    return found


def _words(change: Change) -> str:
    return f"{change.path}: {_short(change.before)} -> {_short(change.after)}"


def _short(value: Any) -> str:
    text = "none" if value is None else "set" if isinstance(value, Mapping | list) else str(value)
    return text if len(text) <= 40 else text[:39] + "…"
