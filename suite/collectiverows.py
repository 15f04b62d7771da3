"""From what the ranks of `tfscale bench collectives` left to rows, fitted links, pairs and racks."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfscale.suite.analysis import linkfit, neighbours
from tfscale.suite.analysis.linkfit import LinkFit, Point
from tfscale.suite.benchforms import (
    BenchCollectives,
    Cell,
    CollectiveRow,
    FittedLink,
    Operation,
    PairRow,
    RankCells,
)
from tfscale.suite.profiling.collectives import algorithm_bandwidth, bus_bandwidth
from tfscale.suite.record import Quantity, unknown
from tfscale.suite.timing import statistics


def document(
    left: Sequence[RankCells], *, operations: Sequence[Operation], ranks: int, **where: Any
) -> BenchCollectives:
    """What all ranks left, together; `where` is what else the document says of them."""
    rows = [row_of(cells, ranks) for cells in zip(*(rank.cells for rank in left), strict=True)]
    pairs = [_pair(cell.pair, _fit([Point(*point) for point in cell.points], 2)) for cell in left[0].pairs]
    racks = racks_of(ranks, pairs) if pairs else None
    return BenchCollectives(
        ranks=ranks,
        effective=left[0].effective,
        rows=tuple(rows),
        links=tuple(link_of(name, rows, ranks) for name in operations),
        pairs=tuple(pairs),
        racks=racks.racks if racks else None,
        racks_reason=racks.reason if racks else None,
        **where,
    )


def row_of(cells: Sequence[Cell], ranks: int) -> CollectiveRow:
    """One operation at one size from the cells of all ranks."""
    first = cells[0]
    if first.reason is not None:
        seconds = unknown("s", "measured", "mean", first.reason)
    else:
        calls = np.mean([cell.seconds for cell in cells], axis=0)
        seconds = statistics.mean(calls)
    algorithm, bus = bandwidths(first.operation, first.size, seconds, ranks)
    return CollectiveRow(
        operation=first.operation,
        size=first.size,
        count=first.count,
        reduction="sum" if first.operation in ("all_reduce", "reduce_scatter") else None,
        origin=first.origin,
        chain=first.chain,
        seconds=seconds,
        algorithm_bandwidth=algorithm,
        bus_bandwidth=bus,
        wrong=None if first.reason is not None else sum(cell.wrong or 0 for cell in cells),
    )


def bandwidths(operation: Operation, size: int, seconds: Quantity, ranks: int) -> tuple[Quantity, Quantity]:
    """Algorithm and bus bandwidth in bytes per second of one `operation` of `size` bytes."""
    return (
        _bandwidth(seconds, lambda ps: algorithm_bandwidth(size, ps), "algorithm bandwidth"),
        _bandwidth(seconds, lambda ps: bus_bandwidth(operation, size, ps, ranks), "bus bandwidth"),
    )


def _bandwidth(seconds: Quantity, of: Callable[[int], float | None], name: str) -> Quantity:
    if seconds.value is None:
        return unknown("B/s", "derived", name, seconds.reason or "no time")
    low, high = seconds.ci95 or (None, None)
    ends = [of(round(end * 1e12)) for end in (high, low) if end]
    return Quantity(
        value=of(round(seconds.value * 1e12)),
        unit="B/s",
        kind="derived",
        statistic=name,
        n_samples=seconds.n_samples,
        ci95=(ends[0], ends[1]) if len(ends) == 2 and ends[0] and ends[1] else None,
        ci_method=seconds.ci_method,
    )


def link_of(operation: Operation, rows: Sequence[CollectiveRow], ranks: int) -> FittedLink:
    """The fit to all sizes of one operation, or why there is none."""
    mine = [row for row in rows if row.operation == operation]
    points = [Point(row.size, row.seconds.value) for row in mine if row.seconds.value is not None]
    fitted = _fit(points, ranks, operation)
    if isinstance(fitted, str):
        reason = next((row.seconds.reason for row in mine if row.seconds.reason), None) if not points else fitted
        none = reason or fitted
        latency, inverse = (unknown(unit, "derived", "fitted", none) for unit in ("s", "s/B"))
        return FittedLink(operation=operation, latency=latency, inverse_bandwidth=inverse, misfit=None)
    return FittedLink(
        operation=operation,
        latency=_fitted(fitted.link.latency_s, "s", fitted.latency_ci95, fitted.n),
        inverse_bandwidth=_fitted(fitted.link.seconds_per_byte, "s/B", fitted.per_byte_ci95, fitted.n),
        misfit=fitted.misfit,
    )


def _fit(points: Sequence[Point], ranks: int, operation: str = "all_reduce") -> LinkFit | str:
    try:
        return linkfit.fit(points, operation, ranks)
    except ValueError as error:
        return str(error)


def _fitted(value: float, unit: str, interval: tuple[float, float] | None, n: int) -> Quantity:
    return Quantity(
        value=value,
        unit=unit,
        kind="derived",
        statistic="fitted",
        n_samples=n,
        ci95=interval,
        ci_method=linkfit.METHOD if interval else None,
    )


def _pair(pair: tuple[int, int], fitted: LinkFit | str) -> PairRow:
    if isinstance(fitted, str):
        latency, bandwidth = (unknown(unit, "derived", "fitted", fitted) for unit in ("s", "B/s"))
    elif fitted.link.seconds_per_byte == 0:
        latency = _fitted(fitted.link.latency_s, "s", fitted.latency_ci95, fitted.n)
        bandwidth = unknown("B/s", "derived", "fitted", "large sums take no longer than small ones")
    else:
        latency = _fitted(fitted.link.latency_s, "s", fitted.latency_ci95, fitted.n)
        low, high = fitted.per_byte_ci95
        interval = (1 / high, 1 / low) if low > 0 else None
        bandwidth = _fitted(1 / fitted.link.seconds_per_byte, "B/s", interval, fitted.n)
    return PairRow(ranks=pair, latency=latency, bandwidth=bandwidth)


def racks_of(ranks: int, pairs: Sequence[PairRow]) -> neighbours.Racks:
    """The ranks grouped by the bandwidths and latencies between them."""
    known = {row.ranks: (row.latency.value, row.bandwidth.value) for row in pairs}
    return neighbours.racks(ranks, known)


def topology_of(answer: BenchCollectives, name: str) -> str:
    """A topology file of what the pairs showed. Raises ValueError where ranks share hosts, or pairs were not measured."""
    if not answer.pairs:
        raise ValueError(
            "a topology is written from the links between pairs of hosts; add --pairs, and 2 ranks or more"
        )
    if answer.hosts != answer.ranks:
        raise ValueError(
            f"{answer.ranks} ranks on {answer.hosts} host(s) show no links between hosts: one rank a host is needed"
        )
    found = racks_of(answer.ranks, answer.pairs)
    measured = neighbours.topology(name, found, {row.ranks: row.bandwidth.value for row in answer.pairs})
    return neighbours.as_yaml(measured, found)
