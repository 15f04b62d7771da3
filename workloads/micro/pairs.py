"""The link between every two ranks, one pair at a time while the others wait: what shows which hosts are neighbours."""

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from tfscale.suite.benchforms import PairCell
from tfscale.suite.exchange import probe

if TYPE_CHECKING:
    from tfscale.suite.strategies.base import Session

SECONDS = 0.3
"""About as long as a large sum of a pair takes."""


def measured(session: "Session", beat: Callable[[], None]) -> tuple[PairCell, ...]:
    """The sums of every pair of replicas, in order; the same on all ranks. `beat` is called after each pair."""
    found = []
    for pair in itertools.combinations(range(session.replicas), 2):
        groups = [list(pair), *([other] for other in range(session.replicas) if other not in pair)]
        points = probe.points(session, groups, seconds=SECONDS)
        found.append(PairCell(pair=pair, points=tuple((point.size, point.seconds) for point in points)))
        beat()
    return tuple(found)
