"""`tfscale gate`, end to end: read the history, judge every series, believe, blame, group; one document comes out."""

import datetime
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfscale.suite.analysis.judging import judge
from tfscale.suite.nightly import causes, decisions, reading, verdicts
from tfscale.suite.nightly.canary import canary
from tfscale.suite.nightly.fingerprint import Machine
from tfscale.suite.nightly.forms import VERDICTS, Beside, Expected, Finding, Gate
from tfscale.suite.nightly.grouping import grouped
from tfscale.suite.nightly.made import beside, finding, judged, slow_node, unit_of
from tfscale.suite.nightly.nodes import Slow
from tfscale.suite.nightly.series import Series, series_of
from tfscale.suite.nightly.verdicts import Outcome

MEMORY_EFFECT = 0.05
"""Least change of peak memory that is told."""
PART_EFFECT = 0.05
"""Least change of a part of the step that is told, and no less than LEAST_SHARE of the step."""
LEAST_SHARE = 0.02
FALSE_ALARM_RATE = 0.001
RATE_OF = "simulation of series without a change, each prefix judged"


@dataclass(frozen=True)
class Options:
    """How a history is judged."""

    min_effect: float = 0.02
    """Least change of throughput that matters, as a fraction."""
    false_discovery_rate: float = 0.05
    baseline: str | None = None
    """A run to compare with instead of the history."""
    suite: str | None = None
    canary: bool = False
    operations: int = 3
    """Findings for which profiles are read."""
    stale_hours: float | None = None
    """Age of the newest run from which every series is missing; None: the age does not matter."""
    now: datetime.datetime | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """The document, and the series it is about, for charts."""

    gate: Gate
    outcomes: list[Outcome]


def answer(path: Path, options: Options) -> Answer:
    """Judge the history at `path`. Raises StoreError, DecisionsError or ValueError for what cannot be judged."""
    history = reading.read(path, options.suite)
    known = decisions.accepted(history.results)
    baseline = _run_named(history, options.baseline) if options.baseline else None
    series = series_of(history)
    if not series:
        skipped = (
            f"; {len(history.warnings)} files were skipped, the first: {history.warnings[0]}"
            if history.warnings
            else ""
        )
        raise ValueError(f"{path} holds runs, but no record that can be read{skipped}")
    _stale(series, history, options)
    outcomes: list[Outcome] = []
    slow: list[tuple[Machine, Slow]] = []
    for machine in dict.fromkeys(one.machine for one in series):
        own = [
            verdicts.outcome(one, options.min_effect) for one in series if one.machine == machine and not one.retired
        ]
        slow += [(machine, one) for one in verdicts.slow_nodes(own, options.min_effect)]
        if baseline is not None:
            own = [verdicts.against(one, baseline, options.min_effect) for one in own]
        outcomes += verdicts.believe(own, options.false_discovery_rate)
    outcomes = [_accepted(one, known, options.min_effect) for one in outcomes]
    return Answer(_document(history, outcomes, slow, baseline, options, series), outcomes)


def _run_named(history: reading.History, name: str) -> str:
    found = [run.run for run in history.runs if run.run.startswith(name)]
    if name in found:
        return name
    if len(found) != 1:
        newest = ", ".join(run.run for run in history.runs[-3:])
        many = "no run" if not found else f"{len(found)} runs"
        raise ValueError(f"baseline {name!r}: {many} of {history.results} begin with that (the newest: {newest})")
    return found[0]


def _stale(series: Sequence[Series], history: reading.History, options: Options) -> None:
    """Nothing new for too long: every series that lives is missing."""
    if options.stale_hours is None:
        return
    created = max(trial.created for trial in history.trials)
    now = options.now or datetime.datetime.now(datetime.UTC)
    age = now - _time(created)
    if age > datetime.timedelta(hours=options.stale_hours):
        hours = age.total_seconds() / 3600
        words = f"no result since {created}, {hours:.0f} hours ago; one is expected every {options.stale_hours:g}"
        for one in series:
            one.missing = one.missing or words


def _time(created: str) -> datetime.datetime:
    try:
        at = datetime.datetime.fromisoformat(created)
    except ValueError:  # a record from elsewhere: as old as can be
        return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return at if at.tzinfo else at.replace(tzinfo=datetime.UTC)


def _accepted(one: Outcome, known: Sequence[decisions.Accepted], min_effect: float) -> Outcome:
    """What somebody accepted is no alarm, as long as it is no worse than it was then."""
    own = [a for a in known if a.case_id == one.series.case_id and a.machine == str(one.series.machine)]
    if one.verdict == "missing":
        last = _last_run(one)
        fits = [a for a in own if a.level is None and a.since == last]
    elif one.verdict in ("regressed", "improved") and one.step is not None:
        level = made_level(one)
        nights = [night.run for night in one.series.nights]
        fits = [
            a
            for a in own
            if a.level is not None
            and a.since in nights
            and abs(nights.index(a.since) - one.step.since) <= SAME_CHANGE
            and level >= a.level * (1 - min_effect)
        ]
    else:
        fits = []
    if not fits:
        return one
    return replace(
        one, verdict="accepted", reason=f"{one.reason}; accepted {fits[-1].accepted[:10]}: {fits[-1].reason}"
    )


SAME_CHANGE = 5
"""Nights by which the place of a change may move as more nights come in."""


def made_level(one: Outcome) -> float:
    """Throughput since the step, the node's effects taken off."""
    import numpy as np

    assert one.step is not None
    return float(np.exp(one.logs[list(one.step.after)].mean()))


def _last_run(one: Outcome) -> str | None:
    return next((night.run for night in reversed(one.series.nights) if night.values), None)


def accept(found: Answer, results: Path, case: str, reason: str) -> list[decisions.Accepted]:
    """Write down that the finding about `case` (an id, or its beginning) is meant. Raises ValueError without one."""
    alarming = [o for o in found.outcomes if o.verdict in ("regressed", "improved", "missing")]
    fits = [o for o in alarming if o.series.case_id.startswith(case)]
    if not fits or len({o.series.case_id for o in fits}) > 1:
        ids = ", ".join(sorted({f"{o.series.case_id} ({o.series.title})" for o in alarming})) or "there is none"
        raise ValueError(f"--accept {case!r} names {'no' if not fits else 'more than one'} change (to accept: {ids})")
    news = [
        decisions.Accepted(
            case_id=o.series.case_id,
            title=o.series.title,
            machine=str(o.series.machine),
            since=(o.series.nights[o.step.since].run if o.step is not None else None) or _last_run(o) or "",
            level=made_level(o) if o.step is not None and o.verdict != "missing" else None,
            unit=unit_of(o.series),
            reason=reason,
            accepted=decisions.now(),
        )
        for o in fits
    ]
    decisions.accept(results, news)
    return news


def _document(
    history: reading.History,
    outcomes: Sequence[Outcome],
    slow: Sequence[tuple[Machine, Slow]],
    baseline: str | None,
    options: Options,
    series: Sequence[Series],
) -> Gate:
    findings = _findings(outcomes, slow, options)
    summary = Counter(o.verdict for o in outcomes if o.verdict != "slow_node")
    nodes = len({(f.machine, f.node) for f in findings if f.verdict == "slow_node"})
    return Gate(
        results=str(history.results),
        last_run=history.runs[-1].run,
        created=(options.now or datetime.datetime.now(datetime.UTC)).isoformat(timespec="seconds"),
        baseline=baseline or "rolling",
        min_effect=options.min_effect,
        false_discovery_rate=options.false_discovery_rate,
        summary={verdict: nodes if verdict == "slow_node" else summary[verdict] for verdict in VERDICTS},
        findings=tuple(findings),
        series=tuple(map(judged, outcomes)),
        beside=tuple(_beside(outcomes)),
        machines=tuple(dict.fromkeys(str(o.series.machine) for o in outcomes)),
        expected_false_alarms=_expected(outcomes, history),
        canary=canary(series, options.min_effect) if options.canary else None,
        notes=tuple(_notes(history, series)),
        warnings=tuple(history.warnings),
    )


def _findings(outcomes: Sequence[Outcome], slow: Sequence[tuple[Machine, Slow]], options: Options) -> list[Finding]:
    """Those that alarm and explain themselves first, the surest and largest of a verdict first."""
    told = [o for o in outcomes if o.verdict not in ("unchanged", "not_enough_data", "slow_node")]
    told.sort(
        key=lambda o: (VERDICTS.index(o.verdict), o.q if o.q is not None else 1.0, -abs(_size(o)), o.series.title)
    )
    budget = options.operations
    found = []
    for one in told:
        reads = budget > 0 and one.step is not None and one.verdict in ("regressed", "improved")
        budget -= reads
        found.append(finding(one, operations=reads))
    found += slow_node(slow, [o for o in outcomes if o.verdict == "slow_node"])
    return grouped(sorted(found, key=lambda f: VERDICTS.index(f.verdict)))


def _size(one: Outcome) -> float:
    return one.step.log_ratio if one.step is not None else 0.0


def _beside(outcomes: Iterable[Outcome]) -> Iterable[Beside]:
    """Peak memory and the parts of a step as series of their own."""
    for one in outcomes:
        nights = one.series.nights
        memory = [causes.memory_of(night) for night in nights]
        told = [("memory_peak", "bytes", memory, MEMORY_EFFECT)]
        parts = [causes.parts_of(night) for night in nights]
        steps = [sum(each.values()) for each in parts if each]
        for name in dict.fromkeys(name for each in parts for name in each):
            own = [each.get(name) for each in parts]
            known = [value for value in own if value is not None]
            share = sum(known) / sum(steps)
            if share >= LEAST_SHARE and min(known) > 0:
                told.append((name, "s", own, max(PART_EFFECT, LEAST_SHARE / share)))
        for name, unit, values, effect in told:
            if sum(value is not None for value in values) > 1:
                word = judge(values, min_effect=effect)
                if word.verdict == "changed":
                    yield beside(one.series, name, unit, word)


def _expected(outcomes: Sequence[Outcome], history: reading.History) -> Expected | None:
    """False alarms a month where nothing changes; None where nothing is judged or runs are too few to tell their pace."""
    count = sum(o.verdict not in ("not_enough_data", "missing") for o in outcomes)
    created = sorted(_time(at) for at in {t.run: t.created for t in history.trials}.values())
    gaps = sorted((later - earlier).total_seconds() / 86400 for earlier, later in itertools.pairwise(created))
    if not count or not gaps or gaps[len(gaps) // 2] <= 0:
        return None
    nights = 30 / gaps[len(gaps) // 2]
    return Expected(
        series=count, nights_a_month=nights, rate=FALSE_ALARM_RATE, rate_of=RATE_OF, a_month=count * nights * FALSE_ALARM_RATE
    )  # fmt: skip


def _notes(history: reading.History, series: Sequence[Series]) -> Iterable[str]:
    newest = history.runs[-1]
    if newest.around is not None:
        runs = [run for run in history.runs if run.suite == newest.suite and run.around is not None]
        same = [run for run in runs if run.around and run.around.machine == newest.around.machine]
        if len(same) < len(runs) and len(same) <= FEW_ON_MACHINE:
            yield (
                f"the newest run is on another machine than {len(runs) - len(same)} runs of its suite before; "
                f"they are not compared: {newest.around.machine}"
            )
    retired = [one.title for one in series if one.retired]
    if retired:
        yield f"no longer measured, and no longer told: {', '.join(retired[:5])}{' ...' if len(retired) > 5 else ''}"
    suspect = [one.title for one in series if not one.retired and any(n.suspect for n in one.nights[-1:])]
    if suspect:
        yield f"last night every trial is SUSPECT of: {', '.join(suspect[:5])}{' ...' if len(suspect) > 5 else ''}"


FEW_ON_MACHINE = 3
"""Runs on a machine up to which it is told that it is a new one."""
