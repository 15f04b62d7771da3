"""A comparison for reading: comparability first, then the table, the means, cost, and what was left out."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tfscale.suite.compare.forms import Both, Comparison, Difference, Mean, Money, Needed, Row, Side
from tfscale.suite.display import cell, number, quantity
from tfscale.suite.display_environment import shown
from tfscale.suite.record import Quantity

WORDS = {
    "faster": "B is faster",
    "slower": "B is slower",
    "no_difference_shown": "no difference shown",
    "no_interval": "no interval",
    "not_compared": "not compared",
}
_STYLES = {"unfair": "bold red", "compared": "", "note": "dim"}
_MOST_NOTES = 12


def comparison(found: Comparison, console: Console) -> None:
    """The whole comparison in the terminal."""
    for letter, side in (("A", found.a), ("B", found.b)):
        console.print(_side(letter, side), markup=False, soft_wrap=True)
    _comparability(found, console)
    _rows(found, console)
    for mean in found.means:
        console.print(mean_words(mean), markup=False, soft_wrap=True)
    for row in found.rows:
        said = row_words(row)
        if said:
            console.print(f"{title(row, found)}:", markup=False, soft_wrap=True)
        for words in said:
            console.print(f"  {words}", markup=False, soft_wrap=True)
    if found.money is not None:
        for words in money_words(found.money):
            console.print(words, markup=False, soft_wrap=True)
    for one in found.unmatched:
        console.print(f"{one.side} alone: {one.title}: {one.reason}", style="dim", markup=False, soft_wrap=True)
    for note in found.notes:
        console.print(f"note: {note}", style="yellow", markup=False, soft_wrap=True)


def _side(letter: str, side: Side) -> str:
    told = [side.system[name] for name in ("processor", "cores", "accelerators", "TensorFlow")]
    words = ", ".join(
        f"accelerators {text}" if name == "accelerators" else text
        for name, text in zip(("processor", "cores", "accelerators", "TensorFlow"), told, strict=True)
        if text
    )
    name = "" if side.name == letter else f" {side.name}"
    return f"{letter}{name} (run {side.run}; {side.cases} cases, {side.trials} trials): {words}"


def _comparability(found: Comparison, console: Console) -> None:
    told = found.comparability
    things = ", ".join(told.things) or "nothing: no difference is known (an A/A comparison)"
    unfair = sum(difference.weighs == "unfair" for difference in told.differences)
    counted = "1 difference" if unfair == 1 else f"{unfair} differences"
    verdict = "fair" if told.fair else f"NOT FAIR: {counted} beside what is compared"
    console.print(f"compared: {things}; {verdict}", style="" if told.fair else "bold red", markup=False, soft_wrap=True)
    listed = [d for d in told.differences if d.weighs != "note"] + [d for d in told.differences if d.weighs == "note"][
        :_MOST_NOTES
    ]
    if listed:
        table = Table("", "what", "A", "B", "why it matters", box=None, pad_edge=False)
        for difference in listed:
            table.add_row(*(escape(text) for text in _difference(difference)), style=_STYLES[difference.weighs])
        console.print(table)
    if len(listed) < len(told.differences):
        console.print(f"and {len(told.differences) - len(listed)} further notes (--json has them)", style="dim")
    console.print()


def _difference(difference: Difference) -> tuple[str, str, str, str, str]:
    count = len(difference.cases)
    concerned = f" ({count} {'case' if count == 1 else 'cases'})" if count else ""
    values = [_value(difference.what, value) for value in (difference.a, difference.b)]
    return difference.weighs, difference.what, values[0], values[1], difference.why + concerned


def _value(what: str, value: Any) -> str:
    return cell(value) if isinstance(value, dict) else shown(what, value)


def _rows(found: Comparison, console: Console) -> None:
    extra = {
        "energy": any(_known(row.energy) for row in found.rows),
        "cost": any(_known(row.cost) for row in found.rows),
        "memory left": any(_known(row.memory_headroom) for row in found.rows),
    }
    headings = ["case", "A", "B", "B / A", "", "trials", *(name for name, told in extra.items() if told)]
    table = Table(*headings, box=None, pad_edge=False)
    for row in found.rows:
        speeds = [quantity(side) for side in (row.throughput.a, row.throughput.b)]
        cells = [
            title(row, found),
            *speeds,
            ratio_words(row.throughput.ratio),
            WORDS[row.verdict],
            trials(row),
        ]
        cells += [_both(row.energy)] if extra["energy"] else []
        cells += [_both(row.cost)] if extra["cost"] else []
        cells += [_both(row.memory_headroom)] if extra["memory left"] else []
        table.add_row(*(escape(text) for text in cells))
    console.print(table)


def _known(both: Both) -> bool:
    return both.a.value is not None or both.b.value is not None


def _both(both: Both) -> str:
    sides = [_value_of(side) for side in (both.a, both.b)]
    if both.ratio is None:
        return (
            f"{both.a.value:.0%}, {both.b.value:.0%}" if None not in (both.a.value, both.b.value) else ", ".join(sides)
        )
    return f"{sides[0]}, {sides[1]}; {ratio_words(both.ratio)}"


def _value_of(one: Quantity) -> str:
    """A value with its unit; money has no SI prefixes."""
    if one.value is None:
        return "unknown"
    return f"{one.value:.4g} {one.unit}" if "/million " in one.unit else number(one.value, one.unit)


def title(row: Row, found: Comparison) -> str:
    """The case, with the values that set A and B apart unless they are the same in all rows."""
    apart = ", ".join(f"{axis} {cell(a)} -> {cell(b)}" for axis, (a, b) in row.axes.items())
    return f"{row.title}: {apart}" if apart and any(other.axes != row.axes for other in found.rows) else row.title


def ratio_words(ratio: Quantity | None) -> str:
    """`1.234 [1.201, 1.268]`, with its kind where that is not what a ratio of measured numbers is."""
    if ratio is None or ratio.value is None:
        return "-"
    text = f"{ratio.value:.4g}"
    text += f" [{ratio.ci95[0]:.4g}, {ratio.ci95[1]:.4g}]" if ratio.ci95 else " (no interval)"
    return text if ratio.kind == "derived" else f"{text} ({ratio.kind})"


def trials(row: Row) -> str:
    if row.paired:
        return f"{len(row.trials_a)} pairs"
    return f"{len(row.trials_a)} and {len(row.trials_b)}"


def mean_words(mean: Mean) -> str:
    """The geometric mean in a sentence."""
    of = f" ({mean.of})" if mean.of else ""
    if mean.ratio.value is None:
        return f"geometric mean{of}: unknown ({mean.ratio.reason})"
    members = "1 case" if len(mean.members) == 1 else f"{len(mean.members)} cases"
    lacking = ", as one of them has none" if mean.verdict == "no_interval" and len(mean.members) > 1 else ""
    return f"geometric mean of {members}{of}: {ratio_words(mean.ratio)}: {WORDS[mean.verdict]}{lacking}"


def row_words(row: Row) -> list[str]:
    """What is to be said of a row beside its numbers: why there is none, trials it would need, doubts, other losses."""
    words = [f"{WORDS[row.verdict]}: {row.reason}"] if row.reason else []
    if row.needed is not None and row.verdict == "no_difference_shown":
        words.append(needed_words(row.needed))
    steps = row.steps_to_target
    if steps.a.value is not None and steps.b.value is not None:
        words.append(f"steps to the target loss: {steps.a.value:.4g}, {steps.b.value:.4g}; {ratio_words(steps.ratio)}")
    return [*words, *row.doubts]


def needed_words(needed: Needed) -> str:
    """`no difference shown; seeing 2 % would need 12 trials of each side, ...`."""
    count = f"more than {needed.most:,}" if needed.trials is None else f"{needed.trials:,}"
    return f"no difference shown; seeing {100 * needed.effect:.3g} % would need {count} {needed.reason}"


def money_words(money: Money) -> list[str]:
    """Prices, cost over all rows, and whether the ranking holds at other prices."""
    given = "; ".join(
        f"{side} {price.value:g} {price.currency} a device and hour ({price.date}, given by you)"
        for side, price in money.prices.items()
    )
    words = [f"prices: {given}"]
    if money.ratio.value is None:
        return [*words, f"cost, B / A: unknown ({money.ratio.reason})"]
    words.append(f"cost of a sample, B / A over all rows: {ratio_words(money.ratio)}")
    if money.break_even is not None:
        words.append(f"both cost the same where B's price is {money.break_even:.4g} times A's")
    sway = max((abs(one.change_a) for one in money.swayed), default=0)
    holds = "changes" if money.rank_changes else "stays the same"
    return [*words, f"the cheaper side {holds} when each price moves by up to {sway:.0%}"]


COLUMNS = (
    "title", "case_a", "case_b", "axes", "devices_a", "devices_b", "paired", "trials_a", "trials_b", "verdict", "reason",
    "needed_trials", "needed_effect", "validity_a", "validity_b", "doubts",
)  # fmt: skip
QUANTITIES = ("throughput", "step_time", "energy", "cost", "memory_headroom", "steps_to_target")


def as_csv(found: Comparison) -> str:
    """One line a row: COLUMNS, then of each of QUANTITIES both sides, their intervals, units and kinds, and the ratio."""
    parts = ("value", "low", "high", "unit", "kind")
    names = [f"{name}_{end}_{part}" for name in QUANTITIES for end in ("a", "b", "ratio") for part in parts]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, *names])
    for row in found.rows:
        writer.writerow([*_head(row), *(each for name in QUANTITIES for each in _cells(getattr(row, name)))])
    return out.getvalue()


def _head(row: Row) -> Sequence[Any]:
    needed = (row.needed.trials, row.needed.effect) if row.needed else (None, None)
    axes = "; ".join(f"{axis}={cell(a)}->{cell(b)}" for axis, (a, b) in row.axes.items())
    counts = (len(row.trials_a), len(row.trials_b))
    head = (row.title, row.case_a, row.case_b, axes, *row.devices, row.paired, *counts, row.verdict, row.reason)
    return (*head, *needed, *row.validity, "; ".join(row.doubts))


def _cells(both: Both) -> list[Any]:
    cells: list[Any] = []
    for one in (both.a, both.b, both.ratio):
        low, high = one.ci95 if one is not None and one.ci95 else (None, None)
        cells += [None] * 5 if one is None else [one.value, low, high, one.unit, one.kind]
    return cells
