"""What changed in the environment since the run before, what is likely to matter for speed first."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfscale.reports import text
from tfscale.suite.environment.diff import Change, differences

LIKELY = 70
"""Weight from which a change is shown as likely to matter."""


@dataclass(frozen=True)
class Line:
    path: str
    before: str
    after: str
    why: str
    likely: bool


@dataclass(frozen=True)
class Changes:
    """`than` is the run compared with; no lines: nothing changed."""

    than: str
    lines: tuple[Line, ...]


def changes(environment: Mapping[str, Any], before: tuple[str, Mapping[str, Any]] | None) -> Changes | None:
    """The changes since `before` (name, environment); None where there is none to compare with."""
    if before is None or not before[1] or not environment:
        return None
    return Changes(before[0], tuple(_line(change) for change in differences(before[1], environment)))


def captured(environment: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every entry as (path, text); the reason of a null stands in its place."""
    flat = text.flatten(environment)
    reasons = {path.removesuffix("_reason"): words for path, words in flat.items() if path.endswith("_reason")}
    return [
        (path, f"{words}: {reasons[path]}" if path in reasons else words)
        for path, words in flat.items()
        if not (path.endswith("_reason") and path.removesuffix("_reason") in flat)
    ]


def _line(change: Change) -> Line:
    told = [text.leaf(value, change.path) if not isinstance(value, list) else ", ".join(map(str, value))
            for value in (change.before, change.after)]  # fmt: skip
    return Line(change.path, told[0], told[1], change.why, change.weight >= LIKELY)
