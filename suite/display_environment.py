"""An environment, and the difference of two, for reading. From the documents alone."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tfscale.suite.display import number
from tfscale.suite.environment.diff import Change, Diff

_LIKELY, _POSSIBLE = 70, 30


def environment(document: Mapping[str, Any], out: Console) -> None:
    """Every entry with its value, or the reason why there is none."""
    out.print(f"environment of {escape(str(document['of']))}", style="bold")
    for name, value in document["environment"].items():
        _print(str(name), value, 0, out)


def _print(name: str, value: Any, depth: int, out: Console) -> None:
    margin = "  " * depth
    if isinstance(value, Mapping) and value:
        out.print(f"{margin}{escape(name)}", soft_wrap=True)
        for inner, member in value.items():
            reason = value.get(f"{inner}_reason")
            if str(inner).endswith("_reason") and value.get(str(inner).removesuffix("_reason"), ...) is None:
                continue
            _print(str(inner), f"unknown ({reason})" if member is None and reason else member, depth + 1, out)
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for position, member in enumerate(value):
            _print(f"{name} {position}", member, depth, out)
    else:
        out.print(f"{margin}{escape(name)}: {escape(shown(name, value))}", soft_wrap=True)


def shown(path: str, value: Any) -> str:
    """One value as text: sizes with a unit, null as unknown, empty as none."""
    if value is None:
        return "unknown"
    if value in ([], {}, ""):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and path.rpartition(".")[2] in (
        "bytes",
        "memory_bytes",
        "memlock_bytes",
        "stack_bytes",
    ):
        return number(value, "B")
    return ", ".join(str(member) for member in value) if isinstance(value, list) else str(value)


def difference(found: Diff, out: Console) -> None:
    """What changed, what is likely to matter first; then what only one side tells, in one line each way."""
    changes = [change for change in found.changes if change.known == "both"]
    out.print(
        f"{escape(found.before)} -> {escape(found.after)}: {len(changes)} differences", style="bold", soft_wrap=True
    )
    if changes:
        table = Table("what", "before", "after", "why it may matter", box=None, pad_edge=False)
        for change in changes:
            table.add_row(*(escape(text) for text in _row(change)), style=_style(change.weight))
        out.print(table)
    for side, name in (("before", found.before), ("after", found.after)):
        paths = [change.path for change in found.changes if change.known == side]
        if paths:
            out.print(f"only {escape(name)} tells: {escape(', '.join(paths))}", style="dim", soft_wrap=True)


def _row(change: Change) -> tuple[str, str, str, str]:
    absent = "not there"
    before = absent if change.before is None else shown(change.path, change.before)
    after = absent if change.after is None else shown(change.path, change.after)
    return change.path, before, after, change.why


def _style(weight: int) -> str:
    return "bold" if weight >= _LIKELY else "" if weight >= _POSSIBLE else "dim"
