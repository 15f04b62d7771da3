"""The page of one comparison: comparability first, then the answer, every case, cost, the two systems. From the document."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from tfscale.reports import frames, html, text
from tfscale.reports.case_table import MARKS, Cell, Notes
from tfscale.reports.figures import forest
from tfscale.suite.compare.forms import Both, Comparison, Difference, Mean, Money, Row, Side
from tfscale.suite.display import cell
from tfscale.suite.display_compare import WORDS, needed_words, title, trials
from tfscale.suite.display_environment import shown
from tfscale.suite.record import Quantity

SECTIONS = (
    ("comparability", "Comparability"),
    ("answer", "Answer"),
    ("cases", "Cases"),
    ("cost", "Cost"),
    ("systems", "Systems"),
    ("apart", "Left out"),
    ("definitions", "Definitions"),
)
SPEED = ("A", "B", "B / A", "Trials")
BESIDE = ("Energy A", "Energy B", "Energy B / A", "Cost A", "Cost B", "Cost B / A", "Memory left A", "Memory left B")
_WEIGHS = {"unfair": "invalid", "compared": "valid", "note": "unknown"}
"""What a difference does -> the badge's look; its word stands in it."""
_SHOWN = {"faster": "valid", "slower": "suspect"}


@dataclass(frozen=True)
class Line:
    """One case of the tables: `cells` of SPEED, `beside` of BESIDE."""

    title: str
    ids: str
    cells: tuple[Cell, ...]
    beside: tuple[Cell, ...]
    verdict: str
    look: str
    words: tuple[str, ...]
    validity: str


def comparison_report(found: Comparison) -> str:
    """One self-contained HTML document about a comparison; the same input gives the same text.

    Raises KindError for a quantity that does not say how it came about.
    """
    notes = Notes()
    beside = Notes()
    lines = [_line(row, found, notes, beside) for row in found.rows]
    kept = [place for place in range(len(BESIDE)) if any(line.beside[place].text != text.NONE for line in lines)]
    differences = found.comparability.differences
    context = {
        "found": found,
        "css": Markup(html.static("style.css")),
        "script": Markup(html.static("report.js")),
        "script_hash": html.hash_of(html.static("report.js")),
        "sections": [one for one in SECTIONS if one[0] != "cost" or found.money],
        "unfair": sum(difference.weighs == "unfair" for difference in differences),
        "weighty": [_difference(d) for d in differences if d.weighs != "note"],
        "noted": [_difference(d) for d in differences if d.weighs == "note"],
        "tally": _tally(found.rows),
        "answers": answers(found),
        "heading": heading(found),
        "columns": SPEED,
        "lines": lines,
        "notes": tuple(notes.numbers),
        "beside_columns": [BESIDE[place] for place in kept],
        "beside": [(line, [line.beside[place] for place in kept]) for line in lines],
        "beside_notes": tuple(beside.numbers),
        "nothing_beside": _nothing_beside(found.rows, len(kept)),
        "marks": {mark: kind for kind, mark in MARKS.items()},
        "chart": Markup(_chart(found)),
        "money": _money(found.money) if found.money else None,
        "systems": _systems(found.a, found.b),
    }
    return html.templates().get_template("comparison.html").render(context)


def heading(found: Comparison) -> str:
    """`none against fp16`; two runs are what was compared of them."""
    if found.a.name != found.a.run:
        return f"{found.a.name} against {found.b.name}"
    return "Two systems" if "hardware" in found.comparability.things else "Two results"


def _nothing_beside(rows: Sequence[Row], kept: int) -> str:
    """Why there is neither energy nor cost nor memory, where there is none of them."""
    if kept or not rows:
        return ""
    return (
        f"energy: {rows[0].energy.a.reason}; memory: {rows[0].memory_headroom.a.reason}; cost: {rows[0].cost.a.reason}"
    )


def _tally(rows: Sequence[Row]) -> list[tuple[str, int]]:
    counts = Counter(row.verdict for row in rows)
    return [(words, counts[verdict]) for verdict, words in WORDS.items() if counts[verdict]]  # type: ignore[index]


def answers(found: Comparison) -> list[dict[str, str]]:
    """The comparison in a few sentences, each with what it rests on; in the form of a page's findings."""
    said = []
    for mean in found.means:
        members = text.plural(len(mean.members), "case")
        words = f"{_ratio(mean.ratio)}: {WORDS[mean.verdict]}"
        said.append(
            {
                "about": mean.of or "Throughput, B / A",
                "words": words,
                "detail": f"geometric mean of {members}{_lacking(mean)}",
            }
        )
    if found.money is not None and found.money.ratio.value is not None:
        ratio = found.money.ratio
        assert ratio.value is not None
        cheaper = "A" if ratio.value > 1 else "B"
        holds = (
            "is the cheaper one only at some prices within ±20 %" if found.money.rank_changes else "is the cheaper one"
        )
        said.append({"about": "Cost of a sample, B / A", "words": f"{_ratio(ratio)}: {cheaper} {holds}", "detail": ""})
    if not said:
        said.append({"about": "", "words": "No case has a number on both sides.", "detail": "see the cases for why"})
    return [{"tone": "", **one} for one in said]


def _lacking(mean: Mean) -> str:
    return ", one of them without interval" if mean.verdict == "no_interval" and len(mean.members) > 1 else ""


def _ratio(ratio: Quantity) -> str:
    if ratio.value is None:
        return f"unknown ({ratio.reason})"
    interval = f" ({ratio.ci95[0]:.3f}–{ratio.ci95[1]:.3f})" if ratio.ci95 else " (no interval)"
    return f"{ratio.value:.3f}{interval}" + ("" if ratio.kind == "derived" else f", {ratio.kind}")


def _difference(difference: Difference) -> dict[str, Any]:
    values = [_words(difference.what, value) for value in (difference.a, difference.b)]
    concerned = f" ({text.plural(len(difference.cases), 'case')})" if difference.cases else ""
    look = _WEIGHS[difference.weighs]
    return {
        "what": difference.what, "a": values[0], "b": values[1], "why": difference.why + concerned,
        "weighs": difference.weighs, "look": look,
    }  # fmt: skip


def _words(what: str, value: Any) -> str:
    return cell(value) if isinstance(value, dict) else shown(what, value)


def _line(row: Row, found: Comparison, notes: Notes, beside: Notes) -> Line:
    speed = row.throughput
    cells = [_cell(one, notes) for one in (speed.a, speed.b, speed.ratio)]
    money = [_cell(one, beside) for pair in (row.energy, row.cost) for one in (pair.a, pair.b, pair.ratio)]
    words = [row.reason] if row.reason else []
    words += [needed_words(row.needed)] if row.needed and row.verdict == "no_difference_shown" else []
    steps = row.steps_to_target.ratio
    words += [f"steps to the target loss, B / A: {_ratio(steps)}"] if steps and steps.value is not None else []
    return Line(
        title=title(row, found),
        ids=row.case_a if row.case_a == row.case_b else f"{row.case_a}, {row.case_b}",
        cells=(*cells, Cell(trials(row), sort=min(len(row.trials_a), len(row.trials_b)))),
        beside=(*money, *_shares(row.memory_headroom, beside)),
        verdict=WORDS[row.verdict],
        look=_SHOWN.get(row.verdict, "unknown"),
        words=(*words, *row.doubts),
        validity=row.validity[0] if row.validity[0] == row.validity[1] else " / ".join(row.validity),
    )


def _cell(quantity: Quantity | None, notes: Notes) -> Cell:
    """A quantity with its interval below and the mark of its kind."""
    if quantity is None or quantity.value is None:
        reason = (quantity.reason if quantity else None) or "not divided"
        return Cell(text.NONE, note=notes.number(reason), reason=reason)
    kind = frames.checked(quantity, quantity.statistic).kind
    unit = quantity.unit.partition("/million ")[0]  # the table says once that cost is for a million samples
    below = "no interval"
    if quantity.ci95:
        low, high = quantity.ci95
        below = f"{low:.3f}–{high:.3f}" if unit == "1" else text.interval(low, high, unit)
    return Cell(_value(quantity.value, unit), below, MARKS[kind], sort=quantity.value)


def _value(value: float, unit: str) -> str:
    return f"{value:.3f}" if unit == "1" else text.quantity(value, unit)


def _shares(both: Both, notes: Notes) -> list[Cell]:
    cells = []
    for side in (both.a, both.b):
        if side.value is None:
            cells.append(_cell(side, notes))
        else:
            of = side.statistic.rpartition(", of the ")[2].partition(",")[0]
            cells.append(
                Cell(text.percent(side.value), of, MARKS[frames.checked(side, "memory").kind], sort=side.value)
            )
    return cells


def _chart(found: Comparison) -> str:
    """Every ratio and the means below; nothing where there is no ratio."""
    lines = [
        forest.Line(title(row, found), ratio.value, ratio.ci95, row.verdict)
        for row in found.rows
        if (ratio := row.throughput.ratio) is not None and ratio.value is not None
    ]
    lines += [
        forest.Line(f"geometric mean {mean.of}".strip(), mean.ratio.value, mean.ratio.ci95, mean.verdict, mean=True)
        for mean in found.means
        if mean.ratio.value is not None
    ]
    label = f"Ratios of throughput of B to A for {text.plural(len(found.rows), 'case')}, with 95 % intervals"
    return forest.forest(lines, "ratios", label) if lines else ""


def _money(money: Money) -> dict[str, Any]:
    """Prices, and the ratio of costs as a table over the changes of both prices."""
    changes = sorted({one.change_a for one in money.swayed})
    ratios = {(one.change_a, one.change_b): one.ratio for one in money.swayed}
    return {
        "prices": [
            (side, f"{price.value:g} {price.currency} a device and hour", price.date)
            for side, price in sorted(money.prices.items())
        ],
        "ratio": _ratio(money.ratio),
        "known": money.ratio.value is not None,
        "break_even": money.break_even and f"{money.break_even:.3f}",
        "changes": [_change(change) for change in changes],
        "rows": [
            (_change(b), [(f"{ratios[a, b]:.3f}", "A" if ratios[a, b] > 1 else "B") for a in changes]) for b in changes
        ],
        "rank_changes": money.rank_changes,
    }


def _change(change: float) -> str:
    return "as given" if change == 0 else f"{change:+.0%}".replace("%", "\u202f%").replace("-", "−")


def _systems(a: Side, b: Side) -> list[tuple[str, str, str, bool]]:
    """(name, A's, B's, whether they differ) of everything that is told of the systems."""
    heads = [("run", a.run, b.run), ("cases, trials", f"{a.cases}, {a.trials}", f"{b.cases}, {b.trials}")]
    told = [(name, a.system.get(name), b.system.get(name)) for name in a.system]
    lines = [(name, one or "unknown", other or "unknown", one != other) for name, one, other in told]
    return [*((name, one, other, False) for name, one, other in heads), *lines]
