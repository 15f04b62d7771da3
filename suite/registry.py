"""What can be named in a suite: strategies, workloads, exchanges, launchers, each found by its entry point.

The entry points in `pyproject.toml` are the only table; a user's own package adds to it by declaring the same group.
Nothing is imported until it is loaded, so listing the names costs no TensorFlow.
"""

import difflib
import importlib
import tomllib
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

GROUPS = (
    "workloads",
    "strategies",
    "exchanges",
    "launchers",
    "renderers",
    "readers",
    "monitors",
    "checks",
    "profile_checks",
    "case_checks",
    "formats",
)


class UnknownNameError(ValueError):
    """A name that nothing is registered under; the message says what is, and the nearest match."""

    def __init__(self, what: str, name: str, known: list[str]) -> None:
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        super().__init__(f"{what} {name!r} is not known (known: {', '.join(known)}){hint}")


@cache
def names(group: str) -> dict[str, str]:
    """Name -> `module:attribute` of everything registered in `group` (one of GROUPS), ours and plugins'."""
    found = {entry.name: entry.value for entry in entry_points(group=f"tfscale.{group}")}
    return found or _from_checkout(group)


def _from_checkout(group: str) -> dict[str, str]:
    """The table of a checkout that was never installed (`python harness.py`), read from its pyproject.toml."""
    path = Path(__file__).resolve().parent.parent / "pyproject.toml"
    if not path.is_file():
        return {}
    table: dict[str, str] = tomllib.loads(path.read_text())["project"]["entry-points"].get(f"tfscale.{group}", {})
    return table


def load(group: str, name: str) -> Any:
    """Import and return the object registered as `name`, or the one that a `module:attribute` name points to."""
    check(group, name)
    target = names(group).get(name, name)
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def check(group: str, name: str) -> None:
    """Raise UnknownNameError where nothing is registered as `name` (a `module:attribute` name is taken on trust)."""
    known = names(group)
    if name not in known and ":" not in name:
        raise UnknownNameError(group.removesuffix("s").replace("strategie", "strategy"), name, sorted(known))
