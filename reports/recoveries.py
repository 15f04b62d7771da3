"""The section on failures: what each one cost, and how often to save, as the records of `recovery` tell."""

from collections.abc import Sequence
from dataclasses import dataclass

from tfscale.reports import frames, text
from tfscale.suite.record import Failed, Period, Quantity, RecoveryResult, Run

FAULTS = {"kill": "a rank is killed", "freeze": "a rank is frozen", "cut": "the link of a rank's host is cut"}
COSTS = ("steps_lost", "detection_time", "restart_time", "time_lost")
SAVING = {
    "checkpoint_time": "A checkpoint",
    "checkpoint_bytes": "Its bytes, all ranks",
    "checkpoint_cost": "Per step",
    "checkpoint_share": "Of a step",
    "step_time": "A step",
}


@dataclass(frozen=True)
class Cell:
    """A value as text; `reason` where there is none."""

    text: str
    kind: str
    statistic: str
    reason: str | None


@dataclass(frozen=True)
class Row:
    """One failure: who failed when, what training went on from, what it cost."""

    head: str
    rank: str
    step: str
    resumed: str
    cells: tuple[Cell, ...]
    outcome: str


@dataclass(frozen=True)
class Told:
    """One case of the scenario."""

    case_id: str
    title: str
    subtitle: str
    status: str
    checks: tuple[str, ...]
    saving: tuple[tuple[str, Cell], ...]
    rows: tuple[Row, ...]
    periods: tuple[tuple[str, tuple[Cell, ...]], ...]
    period: str
    start: str


def recoveries(run: Run) -> list[Told]:
    """Every case that was let fail, in the order of the run."""
    return [_told(result) for result in run.recoveries]


def _told(result: RecoveryResult) -> Told:
    median = Row("median", "", "", "", _cells(result.quantities, COSTS, result.case_id), "")
    return Told(
        case_id=result.case_id,
        title=frames.case_of(result.case).title,
        subtitle=f"{FAULTS[result.fault]}, once in {result.steps} steps; a checkpoint every {result.period_steps} steps",
        status=result.validity.status,
        checks=tuple(check.detail for check in result.validity.checks),
        saving=tuple((title, _cell(result.quantities[name], name)) for name, title in SAVING.items()),
        rows=(*(_row(failure) for failure in result.failures), median),
        periods=tuple((_hours(each.mtbf_s), _period(each)) for each in result.periods),
        period=text.plural(result.period_steps, "step"),
        start=str(result.effective.get("start") or "in a way that their launcher does not tell"),
    )


def _row(failure: Failed) -> Row:
    return Row(
        head=f"seed {failure.seed}",
        rank=str(failure.rank),
        step=text.NONE if failure.step is None else str(failure.step),
        resumed=text.NONE if failure.resumed_step is None else str(failure.resumed_step),
        cells=_cells(failure.quantities, COSTS, f"seed {failure.seed}"),
        outcome=_outcome(failure),
    )


def _outcome(failure: Failed) -> str:
    if not failure.resumed:
        return f"not resumed: {failure.reason}"
    if failure.largest_difference is None:
        return "resumed; losses cannot be compared"
    if failure.largest_difference == 0:
        return "resumed, same losses bit for bit"
    return f"resumed, losses differ by {failure.largest_difference:.2g}"


def _period(period: Period) -> tuple[Cell, ...]:
    shown = (period.young, period.daly, period.steps, period.overhead, period.overhead_here)
    return tuple(_cell(quantity, "period") for quantity in shown)


def _cells(quantities: dict[str, Quantity], names: Sequence[str], where: str) -> tuple[Cell, ...]:
    return tuple(_cell(quantities[name], f"{name} of {where}") for name in names)


def _cell(quantity: Quantity, where: str) -> Cell:
    """A quantity as text; what has no unit here is a share, told as per cent."""
    checked = frames.checked(quantity, where)
    value = checked.value
    if value is None:
        shown = text.NONE
    elif checked.unit == "1":
        shown = text.percent(value, 0 if value >= 0.1 else 3)
    else:
        shown = text.quantity(value, checked.unit)
    return Cell(shown, checked.kind, checked.statistic, checked.reason)


def _hours(seconds: float) -> str:
    return f"{text.number(seconds / 3600, 3)} h"
