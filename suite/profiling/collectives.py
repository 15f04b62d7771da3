"""Collectives: the calls of all ranks (calls.py) joined over devices and hosts, with waits and bandwidths.

Bandwidths are those of nccl-tests
(https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md): S is the total size for all-gather and
reduce-scatter, decimal units.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tfscale.suite.profiling.analysed import Analysed
from tfscale.suite.profiling.calls import Call, calls_of

BUS_FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
}
ANONYMOUS = " call "
"""Between a rank and the number of its call, where several replicas share a process and come in any order."""
ROOTED = ("broadcast", "reduce")


@dataclass(frozen=True)
class Collective:
    """One collective over the ranks that the traces show."""

    type: str
    step: int | None
    size: int | None
    members: int | None
    """Ranks that take part: the group's size where it is told, else those that were seen; None where that is but one."""
    seen: int
    """Ranks that the traces show."""
    start_ps: int
    duration_ps: int
    duration_from: str
    arrivals_ps: dict[str, int]
    waits_ps: dict[str, int] | None
    """By rank, until the last arrival of those that were seen; None where one rank was seen of more, or where clocks do
    not allow a comparison."""
    waits_bound_ps: int | None
    """The error of the waits: a wait that is not longer is not resolved."""
    last: str | None
    """The last to arrive; None where it is not resolved."""
    algorithm_bandwidth: float | None
    """Bytes per second."""
    bus_bandwidth: float | None


def algorithm_bandwidth(size: int | None, duration_ps: int) -> float | None:
    return None if size is None or duration_ps <= 0 else size / (duration_ps * 1e-12)


def bus_bandwidth(kind: str, size: int | None, duration_ps: int, members: int | None) -> float | None:
    """Algorithm bandwidth times the factor of nccl-tests; None for a type without one, an unknown size or number of
    ranks, and for a rank alone, which moves nothing."""
    bandwidth = algorithm_bandwidth(size, duration_ps)
    factor = BUS_FACTORS.get(kind)
    if bandwidth is None or factor is None or members is None or members < 2:
        return None
    return bandwidth * factor(members)


def collectives(analysed: Analysed, bound_ps: int | None) -> list[Collective]:
    """All collectives in time order. `bound_ps` is the error of clocks between hosts, None where it is not known."""
    return joined(calls_of(analysed), aligned=analysed.aligned, bound_ps=bound_ps)


def joined(calls: Iterable[Call], *, aligned: bool, bound_ps: int | None) -> list[Collective]:
    """Calls of one key as one collective, in time order."""
    by_key: dict[tuple[Any, ...], list[Call]] = defaultdict(list)
    for call in calls:
        by_key[call.key].append(call)
    found = [_joined(part, aligned, bound_ps) for mine in by_key.values() for part in _occurrences(mine)]
    return sorted(found, key=lambda c: (c.start_ps, c.type))


def _occurrences(calls: list[Call]) -> Iterator[list[Call]]:
    """Calls of one key in groups of one call a rank: replicas of one process share a rank's name, and keys may recur."""
    calls = sorted(calls, key=lambda call: call.start_ps)
    by_rank: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_rank[call.rank].append(call)
    if all(len(mine) == 1 for mine in by_rank.values()):
        yield calls
        return
    cluster: list[Call] = []
    reach = 0
    for call in calls:
        if cluster and call.start_ps >= reach:
            yield _numbered(cluster)
            cluster = []
        cluster.append(call)
        reach = max(reach, call.end_ps) if len(cluster) > 1 else call.end_ps
    if cluster:
        yield _numbered(cluster)


def _numbered(calls: list[Call]) -> list[Call]:
    """Replicas of one process told apart by their nodes in the graph, which are made replica by replica; where two calls
    come from one node, by the order in which they came, which says nothing about who they are."""
    by_rank: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_rank[call.rank].append(call)
    numbered = []
    for rank, mine in by_rank.items():
        nodes = sorted({call.node for call in mine}, key=lambda node: (len(node), node))
        for count, call in enumerate(mine, 1):
            if len(mine) == 1:
                numbered.append(call)
            elif len(nodes) == len(mine):
                numbered.append(replace(call, rank=f"{rank} replica {nodes.index(call.node)}"))
            else:
                numbered.append(replace(call, rank=f"{rank}{ANONYMOUS}{count}"))
    return numbered


def _joined(calls: list[Call], aligned: bool, bound_ps: int | None) -> Collective:
    first = min(calls, key=lambda call: call.start_ps)
    told = next((call.group_size for call in calls if call.group_size), None)
    alone = len(calls) == 1 and told != 1
    several_hosts = len({call.host for call in calls}) > 1
    error = (bound_ps if aligned else None) if several_hosts else 0
    comparable = error is not None and not alone
    sizes = [call.size for call in calls if call.size is not None]
    size = max(sizes, default=None)
    arrivals = {call.rank: call.start_ps for call in calls}
    latest = max(arrivals.values())
    duration, how = _duration(calls, latest, error, alone)
    members = None if alone and told is None else max(told or 0, len(calls))
    ordered = sorted(arrivals.values())
    told_apart = not any(ANONYMOUS in rank for rank in arrivals)
    resolved = comparable and told_apart and len(ordered) > 1 and ordered[-1] - ordered[-2] > (error or 0)
    return Collective(
        type=first.type,
        step=first.step,
        size=size,
        members=members,
        seen=len(calls),
        start_ps=first.start_ps,
        duration_ps=duration,
        duration_from=how,
        arrivals_ps=arrivals,
        waits_ps={rank: latest - at for rank, at in arrivals.items()} if comparable else None,
        waits_bound_ps=error if comparable else None,
        last=max(arrivals, key=lambda rank: arrivals[rank]) if resolved else None,
        algorithm_bandwidth=algorithm_bandwidth(size, duration),
        bus_bandwidth=bus_bandwidth(first.type, size, duration, members),
    )


def _duration(calls: list[Call], latest_ps: int, error_ps: int | None, alone: bool) -> tuple[int, str]:
    """(picoseconds, how they were got). Ends less arrivals count only where they are beyond the clocks' error."""
    lengths = [call.end_ps - call.start_ps for call in calls]
    through = max(call.end_ps for call in calls) - latest_ps
    if alone:
        return lengths[0], "the one rank that was seen, its wait included"
    if error_ps is not None and len(calls) > 1 and through > error_ps:
        return through, "last end - last arrival"
    if calls[0].type in ROOTED:
        return max(lengths), "longest over ranks"
    return min(lengths), "shortest over ranks"
