"""What a person sees of the scenario `recovery` in the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tfscale.suite.display import brief, quantity
from tfscale.suite.record import RecoveryResult

COLUMNS = {
    "detection_time": "noticed after",
    "restart_time": "back in",
    "steps_lost": "steps lost",
    "checkpoint_time": "a checkpoint",
    "checkpoint_share": "of a step",
}


def recoveries(results: Sequence[RecoveryResult], console: Console) -> None:
    """One line a case, then how often to save, then what is wrong."""
    table = Table(
        "case",
        "resumed",
        *COLUMNS.values(),
        title="\nfailures (medians)",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    for result in results:
        resumed = f"{sum(failure.resumed for failure in result.failures)} of {len(result.failures)}"
        cells = [quantity(result.quantities[name]) for name in COLUMNS]
        table.add_row(escape(brief(result.case)), resumed, *map(escape, cells))
    console.print(table)
    for result in results:
        told = [
            f"{each.steps.value:,.0f} steps at one failure in {each.mtbf_s / 3600:g} h"
            for each in result.periods
            if each.steps.value is not None
        ]
        if told:
            console.print(f"cheapest period of {brief(result.case)}: {'; '.join(told)}", markup=False)
        for check in result.validity.checks:
            if check.status != "VALID":
                console.print(f"{check.status}: {brief(result.case)}: {check.detail}", markup=False)
