"""Reading answers: a value, or null with the reason beside it; the small formats of the kernel's text files."""

import re
from typing import Any

from tfscale.suite.sources.base import Answer, Source

UNLIMITED = "unlimited"


def told(**answers: Answer) -> dict[str, Any]:
    """Name -> value of each answer; where there is none, null and `<name>_reason`."""
    facts: dict[str, Any] = {}
    for name, answer in answers.items():
        facts[name] = answer.value if answer.ok else None
        if not answer.ok:
            facts[f"{name}_reason"] = answer.reason or answer.state
    return facts


def text(source: Source, key: str) -> str | None:
    """The text behind `key`, None where there is none."""
    answer = source.ask(key)
    return str(answer.value) if answer.ok else None


def integer(source: Source, key: str) -> Answer:
    """The whole number behind `key`, as an answer; a text that is none is an error."""
    answer = source.ask(key)
    if not answer.ok:
        return answer
    try:
        return Answer(int(str(answer.value), 0))
    except ValueError:
        return Answer(state="error", reason=f"/{key} holds {answer.value!r}, no whole number")


def fields(content: str) -> dict[str, str]:
    """`key: value` lines as a dict; of a key that is repeated, the first counts."""
    found: dict[str, str] = {}
    for line in content.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            found.setdefault(key.strip(), value.strip())
    return found


def kibibytes(value: str | None) -> int | None:
    """`16384 kB` (or `32K`) of the kernel, in bytes."""
    if value is None:
        return None
    words = re.sub(r"(?<=\d)([KM])$", r" \1B", value.strip()).replace("KB", "kB").split()
    if not words or not words[0].isdecimal():
        return None
    unit = words[1] if len(words) > 1 else "B"
    return int(words[0]) * {"B": 1, "kB": 1024, "MB": 1024**2}[unit]


def cpu_list(value: str) -> list[int]:
    """`0-3,8` as [0, 1, 2, 3, 8], the list format of cpusets(7); [] for an empty text.

    Raises ValueError for anything else.
    """
    cpus: list[int] = []
    for part in value.split(","):
        first, dash, last = part.strip().partition("-")
        if first:
            cpus += range(int(first), int(last if dash else first) + 1)
    return cpus


def chosen(value: str | None) -> str | None:
    """The word in brackets of `always [madvise] never`, which is how the kernel marks the setting in force."""
    if value is None or "[" not in value:
        return value
    return value.partition("[")[2].partition("]")[0]
