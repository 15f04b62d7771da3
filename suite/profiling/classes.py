"""What an event is, told from its name by the pattern tables in names.yaml. Pure."""

import re
from collections.abc import Iterable
from enum import IntEnum
from functools import cache
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray

TABLES = Path(__file__).with_name("names.yaml")
LONGEST = 4096
"""Characters of a name that patterns see, half from its begin and half from its end: some patterns need time that grows
with the square of a name's length, and no library has names like that."""


class Kind(IntEnum):
    """Classes of events. UNKNOWN: no pattern fits; IGNORED: an envelope of other events, or bookkeeping."""

    UNKNOWN = 0
    IGNORED = 1
    COMPUTE = 2
    COMMUNICATION = 3
    COPY = 4
    INPUT = 5
    WAIT = 6
    HOST = 7


_WORDS = {
    "unknown": Kind.UNKNOWN,
    "ignore": Kind.IGNORED,
    "compute": Kind.COMPUTE,
    "communication": Kind.COMMUNICATION,
    "copy": Kind.COPY,
    "input": Kind.INPUT,
    "wait": Kind.WAIT,
    "host": Kind.HOST,
}


@cache
def table(name: str) -> tuple[tuple[Kind, re.Pattern[str]], ...]:
    """The patterns of one table (`gpu`, `cpu`, `tpu`), in order."""
    rows = yaml.safe_load(TABLES.read_text(encoding="utf-8"))[name]
    return tuple((_WORDS[row["class"]], re.compile(row["pattern"])) for row in rows)


def kind_of(name: str, of: str) -> Kind:
    """The class of one name in the table `of`."""
    seen = bounded(name)
    return next((kind for kind, pattern in table(of) if pattern.search(seen)), Kind.UNKNOWN)


def bounded(name: str) -> str:
    """The name as far as patterns look at it."""
    return name if len(name) <= LONGEST else name[: LONGEST // 2] + name[-LONGEST // 2 :]


def kinds(names: Iterable[str], of: str) -> NDArray[np.int8]:
    """The class of each name, (n,)."""
    return np.fromiter((kind_of(name, of) for name in names), np.int8)
