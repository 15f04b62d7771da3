"""How checks are found and asked: each is a small function under an entry point.

Three groups, by what there is to judge: `tfscale.checks` see one timed trial (`Evidence`), `tfscale.profile_checks` the
record and the `tfscale.trace/1` document of its profiled pass, `tfscale.case_checks` the records of all trials of a case.
A check yields nothing where its question does not arise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfscale.suite import registry
from tfscale.suite.record import Check, Record

if TYPE_CHECKING:  # a command that only shows records does not pay for what judges ranks
    from tfscale.suite.validity.base import Evidence

TrialCheck = Callable[["Evidence"], Iterable[Check]]
ProfileCheck = Callable[[Record, Mapping[str, Any]], Iterable[Check]]
CaseCheck = Callable[[Sequence[Record]], Iterable[Check]]


def judge_trial(evidence: "Evidence") -> tuple[Check, ...]:
    """The answers of all checks of a trial, in the order of the registry."""
    checks: list[TrialCheck] = _all("checks")
    return tuple(answer for check in checks for answer in check(evidence))


def judge_profile(record: Record, trace: Mapping[str, Any]) -> tuple[Check, ...]:
    """The answers of all checks of a profiled pass; `record` holds its breakdown."""
    checks: list[ProfileCheck] = _all("profile_checks")
    return tuple(answer for check in checks for answer in check(record, trace))


def judge_case(trials: Sequence[Record]) -> tuple[Check, ...]:
    """The answers of all checks over the trials of one case."""
    checks: list[CaseCheck] = _all("case_checks")
    return tuple(answer for check in checks for answer in check(trials))


def _all(group: str) -> list[Any]:
    return [registry.load(group, name) for name in registry.names(group)]
