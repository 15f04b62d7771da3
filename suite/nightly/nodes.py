"""Nodes of one kind of machine are not equally fast: the node as a random effect of a series. Pure, numpy only.

log throughput = level of its segment + effect of the night's node + noise. The node's effect is predicted (BLUP,
Henderson 1975) from the variances between and within nodes, by moments for unequal counts (Searle 1971, section 11.2).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NIGHTS_A_NODE = 3
"""Nights that two nodes at least must have before effects are told from noise."""
CERTAIN = 4.0
"""Standard errors by which a slow node must be slower; every node of every night is looked at."""


@dataclass(frozen=True)
class Effects:
    """Of the nodes of one series, as differences of log throughput. `between`, `within`: variances."""

    effect: dict[str, float]
    count: dict[str, int]
    between: float = 0.0
    within: float = 0.0

    def left(self, node: str) -> float:
        """Variance of a node's effect that its nights did not settle; of a node never seen, all of it."""
        if self.between == 0:
            return 0.0
        return self.between / (1 + self.count.get(node, 0) * self.between / max(self.within, 1e-12))

    def step_variance(self, before: Sequence[str], after: Sequence[str]) -> float:
        """What nodes add to the variance of a difference of means: squared differences of their shares."""
        shares = {node: after.count(node) / len(after) - before.count(node) / len(before) for node in {*before, *after}}
        return sum(share**2 * self.left(node) for node, share in shares.items())


NONE = Effects({}, {})


def effects(logs: Floats, nodes: Sequence[str], edges: Sequence[int]) -> Effects:
    """From log throughputs (n,), the node of each, and the edges [0, ..., n] of the segments.

    A node that ran a segment alone has no effect that could be told from the segment's level. Nothing is told where
    fewer than two nodes have NIGHTS_A_NODE nights, as where every night has a name of its own.
    """
    values: dict[str, list[float]] = {}
    for first, stop in pairwise(edges):
        if len(set(nodes[first:stop])) > 1:
            left = logs[first:stop] - _balanced(logs[first:stop], nodes[first:stop])
            for node, value in zip(nodes[first:stop], left.tolist(), strict=True):
                values.setdefault(node, []).append(value)
    if sum(len(own) >= NIGHTS_A_NODE for own in values.values()) < 2:
        return NONE
    count = {node: len(own) for node, own in values.items()}
    mean = {node: float(np.mean(own)) for node, own in values.items()}
    total = sum(count.values())
    squares = sum(float(np.sum((np.array(own) - mean[node]) ** 2)) for node, own in values.items())
    within = squares / max(total - len(values), 1)
    centre = sum(count[node] * mean[node] for node in values) / total
    spread = sum(count[node] * (mean[node] - centre) ** 2 for node in values)
    scale = total - sum(n * n for n in count.values()) / total
    between = max(0.0, (spread - (len(values) - 1) * within) / scale)
    if between == 0:
        return Effects(dict.fromkeys(values, 0.0), count, 0.0, within)
    shrunk = {node: between / (between + within / count[node]) * (mean[node] - centre) for node in values}
    return Effects(shrunk, count, between, within)


def _balanced(logs: Floats, nodes: Sequence[str]) -> float:
    """Level of a segment with every node counted once: the mean of its nodes' medians."""
    return float(
        np.mean([np.median([v for v, n in zip(logs, nodes, strict=True) if n == node]) for node in set(nodes)])
    )


@dataclass(frozen=True)
class Slow:
    """A node that is slower than the others of its kind; `ratio` with its 95 % interval, over all cases that ran there."""

    node: str
    ratio: float
    ci95: tuple[float, float]
    runs: int
    others: int
    cases: tuple[str, ...]


def slow_nodes(nights: Sequence[tuple[str, str, dict[str, float]]], min_effect: float) -> list[Slow]:
    """Nodes that are slow beyond doubt in these runs of a machine.

    `nights`: (run, node, {case: log throughput less the level of its segment}), oldest first. A run is one observation,
    the median over its cases, because all its cases run on one node. The others' spread is the noise.
    """
    late = [(node, cases) for _, node, cases in nights if cases]
    found = []
    for node in dict.fromkeys(node for node, _ in late):
        own = [float(np.median(list(cases.values()))) for n, cases in late if n == node]
        others = [float(np.median(list(cases.values()))) for n, cases in late if n != node]
        if len(own) < 2 or len(others) < NIGHTS_A_NODE:
            continue
        centre = float(np.median(others))
        difference = float(np.mean(own)) - centre
        noise = max(1.4826 * float(np.median(np.abs(np.asarray(others) - centre))), float(np.std(own, ddof=1)))
        # The median of normal values has a variance of pi / 2 times the mean's.
        error = noise * math.sqrt(1 / len(own) + math.pi / 2 / len(others))
        if difference > math.log1p(-min_effect) or abs(difference) < CERTAIN * error:
            continue
        names = tuple(sorted({case for n, cases in late if n == node for case in cases}))
        limits = (math.exp(difference - 2 * error), math.exp(difference + 2 * error))
        found.append(Slow(node, math.exp(difference), limits, len(own), len(others), names))
    return found
