"""How numbers and foreign words become text on a page: units, rounding, and what may not reach a browser."""

import math
import re
from collections.abc import Mapping
from typing import Any

NONE = "–"
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """`text` without terminal colours; control, surrogate and direction-changing characters become U+FFFD.

    Logs hold them; XML refuses some, and the last ones can make a command read differently from what it is.
    """
    return _UNPRINTABLE.sub("\ufffd", _ANSI.sub("", text))


def number(value: float, digits: int = 4) -> str:
    """`value` with at least `digits` significant digits, thousands grouped, and no exponent below 10^15."""
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return str(value)
    if abs(value) >= 1e15 or abs(value) < 1e-6:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{decimals(value, digits)}f}"


def decimals(value: float, digits: int = 4) -> int:
    """Decimal places that show `digits` significant digits of `value`; 0 from 10^(digits - 1)."""
    return max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0


def fixed(value: float, places: int) -> str:
    return f"{value:,.{places}f}"


def percent(share: float, places: int = 0) -> str:
    """A share as per cent; the sign has a no-break thin space before it."""
    return f"{100 * share:.{places}f}\u202f%"


def percent_range(low: float, high: float, places: int = 0) -> str:
    """Two shares as `69–73 %`."""
    return f"{100 * low:.{places}f}–{percent(high, places)}"


def seconds(value: float) -> str:
    """A duration in the unit that reads best, such as `41.20 ms`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(value) >= size:
            return f"{number(value / size)} {unit}"
    return f"{number(value / 1e-9)} ns"


def size(value: float) -> str:
    """Bytes in decimal units, such as `1.62 GB`."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= scale:
            return f"{number(value / scale, 3)} {unit}"
    return f"{value:.0f} B"


def quantity(value: float, unit: str) -> str:
    """`value` with its unit, in the form usual for that unit."""
    if unit == "s":
        return seconds(value)
    if unit in ("bytes", "B"):
        return size(value)
    if unit in ("1", "", "ratio", "share"):
        return number(value)
    if unit in ("steps", "samples", "sequences", "images", "count") and math.isclose(value, round(value), rel_tol=1e-9):
        return f"{value:,.0f} {unit}"
    return f"{number(value)} {unit}"


def interval(low: float, high: float, unit: str) -> str:
    """Two values of one unit, the unit said once where both are shown in it, such as `80.5 – 82.7 ms`."""
    first, second = quantity(low, unit), quantity(high, unit)
    start, _, ending = first.rpartition(" ")
    return f"{start if start and second.endswith(' ' + ending) else first} – {second}"


def plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def axes(case: Mapping[str, Any]) -> str:
    """The axes of a case that are no longer readable by this version, as `key=value`, for people."""
    return " ".join(f"{key}={word(value)}" for key, value in case.items())


def word(value: Any) -> str:
    """One setting of a case as a word: maps as `kind:files,cache:memory`, truth as yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{word(entry)}" for key, entry in value.items())
    return str(value)


def flatten(tree: Any, prefix: str = "") -> dict[str, str]:
    """A nested JSON document as `path.to.key` -> text, in document order; an empty list says none, a null unknown."""
    if isinstance(tree, Mapping):
        items = [(f"{prefix}.{key}" if prefix else str(key), value) for key, value in tree.items()]
        return {path: text for key, value in items for path, text in flatten(value, key).items()}
    if isinstance(tree, list | tuple):
        if not tree:
            return {prefix: "none"}
        if any(isinstance(entry, Mapping) for entry in tree):
            items = [(f"{prefix}[{index}]", entry) for index, entry in enumerate(tree)]
            return {path: text for key, value in items for path, text in flatten(value, key).items()}
        return {prefix: ", ".join(leaf(entry, prefix) for entry in tree)}
    return {prefix: leaf(tree, prefix)}


def leaf(value: Any, key: str) -> str:
    """One value of a document; what is counted in bytes is shown as a size as well."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{size(value)} ({value:,})" if key.endswith("bytes") else str(value)
    return str(value)
