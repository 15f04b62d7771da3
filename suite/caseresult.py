"""A case over its trials: every quantity with its interval across trials, and the worst of the trials' validity."""

from collections.abc import Iterable, Sequence

from tfscale.suite.record import CaseResult, Check, CheckStatus, Quantity, Record, Validity, unknown
from tfscale.suite.timing.trials import across_trials, half_width
from tfscale.suite.validity.judging import judge_case

_SEVERITY: tuple[CheckStatus, ...] = ("VALID", "UNKNOWN", "SUSPECT", "INVALID")


def case_result(trials: Sequence[Record]) -> CaseResult:
    """The result of one case from the records of its trials (n >= 1). Raises ValueError for several cases."""
    if len({record.case_id for record in trials}) != 1:
        raise ValueError("a case result needs the records of exactly one case")
    first = trials[0]
    names = [name for name in first.quantities if all(name in record.quantities for record in trials)]
    return CaseResult(
        case_id=first.case_id,
        case=first.case,
        quantities={name: _over([record.quantities[name] for record in trials]) for name in names},
        trials=tuple(record.id for record in trials),
        validity=Validity.of((*_worst_checks(trials), *judge_case(trials))),
    )


def _over(trials: Sequence[Quantity]) -> Quantity:
    """One quantity over its trials; unknown where they were not found the same way, as an energy may not be."""
    try:
        return across_trials(trials)
    except ValueError:
        known = [trial for trial in trials if trial.value is not None]
        ways = " and ".join(dict.fromkeys(f"{trial.statistic} ({trial.kind})" for trial in known))
        first = known[0]
        return unknown(first.unit, first.kind, first.statistic, f"trials found it in different ways: {ways}")


def case_results(records: Iterable[Record]) -> list[CaseResult]:
    """Results of all cases among `records`, in the order in which the cases first appear.

    Trials of different runs are not mixed: a later run may be on another machine. Records of one run are expected;
    of several, the newest run of each case counts.
    """
    by_case: dict[str, list[Record]] = {}
    for record in records:
        by_case.setdefault(record.case_id, []).append(record)
    newest = {case: max(record.run for record in trials) for case, trials in by_case.items()}
    return [case_result([r for r in trials if r.run == newest[case]]) for case, trials in by_case.items()]


def target_met(trials: Sequence[Record], target: float) -> bool:
    """Whether the case's step time is known to within `target` (relative half-width) across its trials."""
    step_time = case_result(trials).quantities.get("step_time")
    if step_time is None or step_time.scope != "across_trials":
        return False
    width = half_width(step_time)
    return width is not None and width <= target


def _worst_checks(trials: Sequence[Record]) -> list[Check]:
    """One check a name: the worst answer of any trial, with the number of the trials that gave it."""
    worst: dict[str, tuple[Check, list[int]]] = {}
    for record in trials:
        for check in record.validity.checks:
            known, at = worst.get(check.name, (check, []))
            if _SEVERITY.index(check.status) > _SEVERITY.index(known.status):
                worst[check.name] = (check, [record.trial])
            elif check.status == known.status:
                worst[check.name] = (known, [*at, record.trial])
    if len(trials) == 1:
        return [check for check, _ in worst.values()]
    return [
        check if check.status == "VALID" else check.model_copy(update={"detail": f"{check.detail} (trial {_list(at)})"})
        for check, at in worst.values()
    ]


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
