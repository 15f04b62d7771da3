"""What a measurement gives: rows of a number, its interval and the bound that it must keep; as JSON between runs."""

import json
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tfscale.suite.record import Quantity

Verdict = Literal["kept", "open", "missed"]


@dataclass(frozen=True)
class Bound:
    """What a row must show. `strict`: the whole interval must lie on the good side, an open question fails too.

    holds: the interval must contain `value`, and be no wider than +- `width` relative to it.
    """

    sense: Literal["at_most", "at_least", "above", "holds"]
    value: float
    unit: str = ""
    width: float | None = None
    strict: bool = False

    def __str__(self) -> str:
        words = {"at_most": "<=", "at_least": ">=", "above": ">", "holds": "interval holds"}[self.sense]
        tail = f", within +-{self.width:.0%}" if self.width else ""
        return f"{words} {self.value:g}{' ' + self.unit if self.unit else ''}{tail}"

    def verdict(self, low: float, high: float) -> Verdict:
        """Kept or missed where the interval [low, high] lies wholly on one side, else open."""
        if self.sense == "holds":
            if not low <= self.value <= high:
                return "missed"
            wide = self.width is not None and high - low > 2 * self.width * self.value
            return "open" if wide else "kept"
        if self.sense == "at_most":
            return "kept" if high <= self.value else "missed" if low > self.value else "open"
        if self.sense == "at_least":
            return "kept" if low >= self.value else "missed" if high < self.value else "open"
        return "kept" if low > self.value else "missed" if high <= self.value else "open"


@dataclass(frozen=True)
class Row:
    """One number of the table. Without interval the value itself is judged."""

    what: str
    value: float | None
    unit: str
    kind: Literal["measured", "derived", "simulated"]
    n: int
    ci95: tuple[float, float] | None = None
    bound: Bound | None = None
    note: str = ""

    @property
    def verdict(self) -> Verdict | None:
        """None where nothing is required."""
        if self.bound is None:
            return None
        if self.value is None or not math.isfinite(self.value):
            return "missed"
        low, high = self.ci95 or (self.value, self.value)
        return self.bound.verdict(low, high)

    @property
    def fails(self) -> bool:
        """Whether the whole run fails for it: missed beyond the interval, or not shown where showing is required."""
        return self.verdict == "missed" or (self.verdict == "open" and self.bound is not None and self.bound.strict)


@dataclass(frozen=True)
class Part:
    """The result of one measurement: its rows, and tables of text that go with them."""

    name: str
    title: str
    method: str
    rows: list[Row]
    seconds: float = 0.0
    created: str = ""
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    """Title -> rows of cells, the first row the headings."""

    def over(self, known: "Part") -> "Part":
        """This part with the rows and tables of `known` that it does not hold itself, in the order of `known`."""
        mine = {row.what: row for row in self.rows}
        kept = [mine.pop(row.what, row) for row in known.rows]
        return replace(self, rows=[*kept, *mine.values()], tables={**known.tables, **self.tables})

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.json").write_text(json.dumps(asdict(self), indent=1, allow_nan=False) + "\n")


def read(path: Path) -> Part:
    data = json.loads(path.read_text())
    rows = [_row(row) for row in data.pop("rows")]
    return Part(rows=rows, **data)


def _row(data: dict[str, Any]) -> Row:
    bound = Bound(**data.pop("bound")) if data["bound"] else data.pop("bound")
    interval = data.pop("ci95")
    return Row(ci95=tuple(interval) if interval else None, bound=bound, **data)


def from_quantity(what: str, q: Quantity, *, bound: Bound | None = None, note: str = "", n: int | None = None) -> Row:
    """A row from one of the suite's quantities."""
    kind: Literal["measured", "derived"] = "measured" if q.kind == "measured" else "derived"
    count = n if n is not None else q.n_samples or q.n_trials
    return Row(what, q.value, q.unit, kind, count, q.ci95, bound, note or q.reason or "")
