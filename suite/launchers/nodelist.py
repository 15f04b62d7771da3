"""Slurm's short forms: lists of nodes and of tasks per node. Pure, in Slurm's own order.

The order matters: Slurm numbers its tasks along the list, so `node[9-10]` is node9 and then node10. Forms are those of
the Slurm documentation (SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE) and of `scontrol show hostnames`, which is what the
tests compare with.
"""

import itertools
import re
from collections.abc import Iterator

MOST_NODES = 100_000
_RANGE = re.compile(r"^(\d+)(?:-(\d+))?$")
_TASKS = re.compile(r"^(\d+)(?:\(x(\d+)\))?$")
_NAME = re.compile(r"^[A-Za-z0-9_.:-]*$")


class NodeListError(ValueError):
    """A list that is not in Slurm's form; the message quotes it and the place."""


def expand(text: str) -> list[str]:
    """Node names of `text`, such as `rack[1-2]node[08-10]-ib,login`; repeated names stay. Raises NodeListError.

    Of several brackets in one name the last runs fastest. Numbers keep the width of a range's first one.
    """
    nodes: list[str] = []
    for part in _split(text):
        nodes += itertools.islice(_names(part, text), MOST_NODES - len(nodes) + 1)
        if len(nodes) > MOST_NODES:
            raise NodeListError(f"node list {text[:200]!r} has more than {MOST_NODES} nodes")
    return nodes


def tasks_per_node(text: str) -> list[int]:
    """`2(x3), 1` as [2, 2, 2, 1]. Raises NodeListError."""
    counts: list[int] = []
    for part in text.split(","):
        match = _TASKS.match(part.strip())
        if match is None:
            raise NodeListError(f"tasks per node {text[:200]!r}: {part.strip()!r} is no `count` or `count(xnodes)`")
        count, nodes = int(match[1]), int(match[2] or 1)
        if len(counts) + nodes > MOST_NODES:
            raise NodeListError(f"tasks per node {text[:200]!r} has more than {MOST_NODES} nodes")
        counts += [count] * nodes
    return counts


def _split(text: str) -> Iterator[str]:
    """The parts between commas that are not in brackets."""
    depth, part = 0, ""
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            break
        if letter == "," and depth == 0:
            yield _whole(part, text)
            part = ""
        else:
            part += letter
    if depth != 0:
        raise NodeListError(f"node list {text[:200]!r}: a bracket is not closed, or closed twice")
    yield _whole(part, text)


def _whole(part: str, text: str) -> str:
    if not part.strip():
        raise NodeListError(f"node list {text[:200]!r}: there is an empty name in it")
    return part.strip()


def _names(part: str, text: str) -> Iterator[str]:
    pieces = re.split(r"\[([^\[\]]*)\]", part)  # fixed text and bracket contents in turn
    for fixed in pieces[::2]:
        if not _NAME.match(fixed):
            raise NodeListError(f"node list {text[:200]!r}: {fixed!r} is no part of a name")
    choices = [_numbers(piece, text) if place % 2 else [piece] for place, piece in enumerate(pieces)]
    return ("".join(chosen) for chosen in itertools.product(*choices))


def _numbers(bracket: str, text: str) -> list[str]:
    """`1-3,07` as 1, 2, 3, 07."""
    numbers: list[str] = []
    for part in bracket.split(","):
        match = _RANGE.match(part.strip())
        low, high = (match[1], match[2] or match[1]) if match else ("", "")
        if match is None or int(high) < int(low):
            raise NodeListError(f"node list {text[:200]!r}: {part.strip()!r} is no number and no range of them")
        if int(high) - int(low) >= MOST_NODES:
            raise NodeListError(f"node list {text[:200]!r} has more than {MOST_NODES} nodes")
        numbers += [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
    return numbers
