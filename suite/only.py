"""`--only 'strategy=mirrored,devices>=2'`: a filter over cases, parsed, never evaluated."""

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from tfscale.suite.exchange.parse import split_outside
from tfscale.suite.spec import Case
from tfscale.suite.suitefile import AXES, unknown_key

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, "<=": operator.le, "!=": operator.ne, "=": operator.eq, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_TERM = re.compile(r"\s*(\w+)\s*(>=|<=|!=|==?|>|<)\s*(.*?)\s*$", re.DOTALL)


class OnlyError(ValueError):
    """A filter that cannot be understood."""


def parse(text: str) -> Callable[[Case], bool]:
    """A predicate for comma-separated terms that must all hold; `axis=a|b` takes either value.

    Commas in parentheses part nothing: `exchange=powersgd(rank=4,warm=1)` is one term.
    """
    terms = [_term(part) for part in split_outside(text)]
    return lambda case: all(term(case) for term in terms)


def chosen(cases: Sequence[Case], text: str) -> list[Case]:
    """Those of `cases` that `text` lets through. Raises OnlyError where none is."""
    keep = parse(text)
    found = [case for case in cases if keep(case)]
    if not found:
        raise OnlyError(f"--only {text!r}: no case of {len(cases)} matches (see --dry-run for the cases)")
    return found


def _term(text: str) -> Callable[[Case], bool]:
    match = _TERM.match(text)
    if not match:
        raise OnlyError(f"--only: {text!r} is not AXIS OP VALUE (operators: {' '.join(OPERATORS)})")
    axis, symbol, wanted = match.groups()
    symbol = "=" if symbol == "==" else symbol
    known = (*AXES, "id")
    if axis not in known:
        raise OnlyError(f"--only: {unknown_key(axis, known, 'the filter')}")
    compare = OPERATORS[symbol]
    if symbol in ("=", "!="):
        choices = wanted.split("|")
        return lambda case: (_text(_value(case, axis)) in choices) == (symbol == "=")
    try:
        number = float(wanted)
    except ValueError:
        raise OnlyError(f"--only: {symbol} compares numbers, and {wanted!r} is not one (in {text.strip()!r})") from None

    def holds(case: Case) -> bool:
        value = _value(case, axis)
        return isinstance(value, int | float) and compare(value, number)

    return holds


def _value(case: Case, axis: str) -> Any:
    value = getattr(case, axis)
    return value.kind if axis == "input" else value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
