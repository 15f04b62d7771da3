"""From trials to one series a case and machine: a night is a run, its trials are replicates. Pure but for run.json."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tfscale.suite.nightly.fingerprint import Machine, merged
from tfscale.suite.nightly.reading import History, RanRun, Trial

LATE_RUNS = 12
"""Runs at the end of a suite's history of which is asked what they set out to do."""
DROPPED_AFTER = 3
"""Runs in a row that did not plan a case before that is told: a single one may be `--only` something else."""
RETIRED_AFTER = 10
"""Runs in a row without a case after which it is no longer told."""


@dataclass(frozen=True, eq=False)
class Night:
    """A case in one run. No values: it was to run, and nothing came of it that may be counted."""

    run: str
    trials: tuple[Trial, ...]
    reason: str | None = None
    """Why there is no value."""

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(trial.value for trial in self.trials if trial.value is not None)

    @property
    def level(self) -> float | None:
        """Geometric mean of the trials."""
        values = self.values
        return math.exp(sum(map(math.log, values)) / len(values)) if values else None

    @property
    def node(self) -> str:
        return self.trials[0].around.node if self.trials else ""

    @property
    def suspect(self) -> bool:
        """Whether every trial that counts is in doubt."""
        counted = [trial for trial in self.trials if trial.value is not None]
        return bool(counted) and all(trial.status != "VALID" for trial in counted)


@dataclass(eq=False)
class Series:
    """One case on one machine over the nights, oldest first. `missing`: why the last night, or more, has no result."""

    case_id: str
    case: dict[str, object]
    resolved: str | None
    machine: Machine
    nights: list[Night] = field(default_factory=list)
    missing: str | None = None
    retired: bool = False

    @property
    def title(self) -> str:
        """Short name for people; the case may be of an older version, so it is not validated."""
        head = [str(self.case.get(name, "")) for name in ("workload", "preset")]
        head += [str(self.case.get("strategy", "one_device")), f"x{self.case.get('devices', 1)}"]
        known = ("workload", "preset", "strategy", "devices")
        rest = [f"{name}={_short(value)}" for name, value in self.case.items() if name not in known]
        return " ".join([*head, *rest, *([f"({self.resolved})"] if self.resolved else [])])

    @property
    def last(self) -> Night:
        """The last night that has values."""
        return next(night for night in reversed(self.nights) if night.values)


def _short(value: object) -> str:
    if isinstance(value, dict):
        named = value.get("name") or ",".join(f"{k}:{v}" for k, v in value.items())
        return str(named)
    return str(value)


def series_of(history: History) -> list[Series]:
    """Every case on every machine, in the order of machines, then of titles."""
    of_runs = (run.around.machine for run in history.runs if run.around is not None)
    machines = merged([*of_runs, *{id(t.around): t.around.machine for t in history.trials}.values()])
    found: dict[tuple[Machine, str, str | None], dict[str, list[Trial]]] = {}
    for trial in history.trials:
        key = (machines[trial.around.machine], trial.case_id, trial.resolved)
        found.setdefault(key, {}).setdefault(trial.run, []).append(trial)
    plans: dict[str, set[str] | None] = {}
    made = [_series(key, nights, history.runs, machines, plans) for key, nights in found.items()]
    # Where an exchange chooses for itself, another choice last night is no missing night of the one before.
    newest: dict[tuple[Machine, str], str] = {}
    for one in made:
        place = (one.machine, one.case_id)
        newest[place] = max(newest.get(place, ""), one.last.run if _has_values(one) else "")
    for one in made:
        if one.missing and _has_values(one) and newest[one.machine, one.case_id] > one.last.run:
            one.missing, one.retired = None, True
    return sorted(made, key=lambda one: (one.machine, one.title, one.case_id))


def _has_values(series: Series) -> bool:
    return any(night.values for night in series.nights)


def _series(
    key: tuple[Machine, str, str | None],
    nights: dict[str, list[Trial]],
    runs: Sequence[RanRun],
    machines: dict[Machine, Machine],
    plans: dict[str, set[str] | None],
) -> Series:
    place, case_id, resolved = key
    suites = {run.suite for run in runs if run.run in nights}
    own = [r for r in runs if r.suite in suites and r.around and machines[r.around.machine] == place]
    first = min(nights)
    newest = next(iter(sorted(nights, reverse=True)))
    made = Series(case_id, dict(nights[newest][0].case), resolved, place)
    unplanned = 0
    for number, run in enumerate(own):
        if run.run < first:
            continue
        trials = nights.get(run.run)
        if trials is not None:
            unplanned = 0
            made.nights.append(Night(run.run, tuple(trials), _invalid(trials)))
        elif case_id in run.failed:
            unplanned = 0
            made.nights.append(Night(run.run, (), run.failed[case_id]))
        elif number >= len(own) - LATE_RUNS and _planned(run, case_id, plans):
            unplanned = 0
            made.nights.append(Night(run.run, (), "the run ended before the case, or its files are damaged"))
        else:
            unplanned += 1
    _end(made, unplanned)
    return made


def _invalid(trials: Sequence[Trial]) -> str | None:
    if any(trial.value is not None for trial in trials):
        return None
    return "every trial is INVALID" if any(t.status == "INVALID" for t in trials) else "no trial has a throughput"


def _planned(run: RanRun, case_id: str, plans: dict[str, set[str] | None]) -> bool:
    if run.run not in plans:
        plans[run.run] = run.planned()
    planned = plans[run.run]
    return planned is None or case_id in planned


def _end(series: Series, unplanned: int) -> None:
    """Whether the series ends with a result, and if not, what to say of it."""
    empty = 0
    for night in reversed(series.nights):
        if night.values:
            break
        empty += 1
    if unplanned > RETIRED_AFTER or empty > RETIRED_AFTER:
        series.retired = True
    elif unplanned >= DROPPED_AFTER:
        series.missing = f"the last {unplanned} runs of its suite did not plan it"
    elif empty:
        series.missing = series.nights[-1].reason
