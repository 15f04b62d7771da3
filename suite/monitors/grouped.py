"""A monitor made of groups: columns that one reading answers together, as /proc/stat does for all cores."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath

from tfscale.suite.monitors.base import Column, Monitor
from tfscale.suite.sources.base import Answer, Source

Values = Mapping[str, float | None]
"""Column key -> value."""


@dataclass(frozen=True)
class Group:
    """Columns with the function that reads all of them at once."""

    columns: Sequence[Column]
    read: Callable[[], Values]


class Grouped(Monitor):
    """A monitor whose samples come from the groups of its subclass, each read at most once a sample."""

    @abstractmethod
    def groups(self) -> Sequence[Group]:
        """What there is to read; asked once."""

    @cached_property
    def _by_key(self) -> dict[str, tuple[Column, Group]]:
        # By key: two devices that the system gives one name are one device to whoever reads the record.
        return {column.key: (column, group) for group in self.groups() for column in group.columns}

    def columns(self) -> Sequence[Column]:
        return [column for column, _ in self._by_key.values()]

    def sample(self, columns: Sequence[Column]) -> list[float | None]:
        found: dict[int, Values] = {}
        values: list[float | None] = []
        for column in columns:
            key = column.key
            group = self._by_key[key][1]
            if id(group) not in found:
                found[id(group)] = group.read()
            values.append(found[id(group)].get(key))
        return values


def file_group(files: Source, key: str, columns: Sequence[Column], parse: Callable[[str], Values]) -> Group:
    """Columns of one text file; those that it does not hold now are unsupported, all of them where it cannot be read."""
    first = files.ask(key)

    def read() -> Values:
        answer = files.ask(key)
        return parse(answer.value) if answer.ok else {}

    found = parse(first.value) if first.ok else {}
    return Group([_with_state(column, first, key, found) for column in columns], read)


def each_file_group(files: Source, folder: str, columns: Sequence[tuple[Column, str, float]]) -> Group:
    """Columns of one number a file: (column, the file's name in `folder`, what its number is multiplied by)."""

    def read_of(chosen: Sequence[tuple[Column, str, float]]) -> Values:
        found: dict[str, float | None] = {}
        for column, name, factor in chosen:
            answer = files.ask(f"{folder}/{name}")
            value = number(answer.value) if answer.ok else None
            found[column.key] = None if value is None else value * factor
        return found

    opened: list[tuple[Column, str, float]] = []
    for column, name, factor in columns:
        answer = files.ask(f"{folder}/{name}")
        opened.append((with_answer(column, answer, f"{folder}/{name}"), name, factor))
    good = [entry for entry in opened if entry[0].state == "ok"]
    return Group([column for column, _, _ in opened], lambda: read_of(good))


def with_answer(column: Column, answer: Answer, key: str) -> Column:
    """`column` with the state of its first answer, which has to be a number."""
    if not answer.ok:
        return replace(column, state=answer.state, reason=answer.reason)
    if number(answer.value) is None:
        shown = str(answer.value)[:40]
        return replace(column, state="unsupported", reason=f"/{key} holds {shown!r}, which is no number")
    return column


def _with_state(column: Column, answer: Answer, key: str, found: Values) -> Column:
    if not answer.ok:
        return replace(column, state=answer.state, reason=answer.reason)
    if found.get(column.key) is None:
        return replace(column, state="unsupported", reason=f"/{key} does not tell {PurePosixPath(column.key).name}")
    return column


def number(text: str) -> float | None:
    """A whole or decimal number, None for anything else (`N/A (no PMA)`, `max`, an empty file)."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if value - value == 0 else None  # neither infinite nor NaN
