"""What a check sees, and how checks are found: each is a small function under an entry point.

Three groups, by what there is to judge: `tfscale.checks` see one timed trial, `tfscale.profile_checks` its profiled pass,
`tfscale.case_checks` all trials of a case. A check yields nothing where its question does not arise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfscale.suite import registry
from tfscale.suite.monitors.series import Series
from tfscale.suite.plan import RankPlan
from tfscale.suite.ranks import RankData
from tfscale.suite.record import Check, Monitored, Quantity, Record
from tfscale.suite.spec import Case
from tfscale.suite.strategies.base import Strategy
from tfscale.suite.summarise import Timing


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything known of one timed trial when it is judged. `ranks` are those that train, in rank order."""

    ranks: Sequence[RankData]
    strategy: Strategy
    timing: Timing
    window_ns: tuple[int, int]
    """The steady window on the clock of the ranks, `perf_counter_ns` of their host."""
    quantities: Mapping[str, Quantity]
    effective: Mapping[str, Any]
    """What was really used, as in the record."""
    monitors: Mapping[str, Monitored] = field(default_factory=dict)
    series: Mapping[str, Series] = field(default_factory=dict)
    """The samples themselves, by monitor; empty where none ran."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    """What the watcher had to say after the results were on disk."""

    @property
    def plan(self) -> RankPlan:
        return self.ranks[0].plan

    @property
    def case(self) -> Case:
        return self.plan.case

    @property
    def folder(self) -> Path:
        """The trial's folder."""
        return Path(self.plan.trial_directory)


TrialCheck = Callable[[Evidence], Iterable[Check]]
ProfileCheck = Callable[[Record, Mapping[str, Any]], Iterable[Check]]
"""(the record with its breakdown, the `tfscale.trace/1` document of the profiled pass)."""
CaseCheck = Callable[[Sequence[Record]], Iterable[Check]]


def judge_trial(evidence: Evidence) -> tuple[Check, ...]:
    """The answers of all checks of a trial, in the order of the registry."""
    checks: list[TrialCheck] = _all("checks")
    return tuple(answer for check in checks for answer in check(evidence))


def judge_profile(record: Record, trace: Mapping[str, Any]) -> tuple[Check, ...]:
    checks: list[ProfileCheck] = _all("profile_checks")
    return tuple(answer for check in checks for answer in check(record, trace))


def judge_case(trials: Sequence[Record]) -> tuple[Check, ...]:
    checks: list[CaseCheck] = _all("case_checks")
    return tuple(answer for check in checks for answer in check(trials))


def _all(group: str) -> list[Any]:
    return [registry.load(group, name) for name in registry.names(group)]
