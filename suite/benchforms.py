"""The documents of `tfscale bench collectives`: what ranks are told, what each leaves, and the answer."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from tfscale.suite.formats.forms import Origin
from tfscale.suite.record import Quantity, Strict

COLLECTIVES_SCHEMA: Literal["tfscale.bench_collectives/1"] = "tfscale.bench_collectives/1"
Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"]

SETTINGS = "collectives.json"
"""Beside the trial's folder: what the ranks are to measure."""
CELLS = "cells.json"
"""In each rank's folder: what it measured."""


class Settings(Strict):
    """What every rank measures."""

    operations: tuple[Operation, ...]
    sizes: tuple[int, ...]
    """Bytes, rising."""
    sizes_of: tuple[str, str] | None = None
    """Workload and preset whose gradients' sizes are measured too."""
    budget_s: float
    pairs: bool = False


class Cell(Strict):
    """One operation at one size, as one rank saw it."""

    operation: Operation
    size: int
    """Bytes, as nccl-tests counts them."""
    count: int
    origin: str
    chain: int = 0
    """Operations of one call, each on what the one before gave."""
    seconds: tuple[float, ...] = ()
    """Per operation, one a call; empty where it was not measured."""
    wrong: int | None = None
    """Elements of this rank's results that are not exactly what they must be."""
    reason: str | None = None


class PairCell(Strict):
    """Two-rank sums between the ranks `pair`, one after the other, alone on the network: [bytes, seconds] of each."""

    pair: tuple[int, int]
    points: tuple[tuple[float, float], ...]


class RankCells(Strict):
    """What one rank leaves."""

    rank: int
    cells: tuple[Cell, ...]
    pairs: tuple[PairCell, ...] = ()
    effective: dict[str, Any]


class CollectiveRow(Strict):
    """One operation at one size over all ranks."""

    operation: Operation
    size: int
    """S in bytes; the total for all-gather, reduce-scatter and all-to-all."""
    count: int
    """Elements as nccl-tests counts them: of S, or of the part of one rank for those three."""
    dtype: str = "float32"
    """`float32`, or what another tool calls its type."""
    reduction: Literal["sum", "prod", "min", "max", "avg", "mulsum"] | None
    origin: str
    """`sweep`, or the model whose gradient has this size."""
    chain: int
    seconds: Quantity
    """Mean over ranks of the mean over calls."""
    algorithm_bandwidth: Quantity
    bus_bandwidth: Quantity
    """Bytes per second, as nccl-tests defines them."""
    wrong: int | None
    """Summed over ranks; None where it was not measured."""
    deviation: float | None = None
    """Largest relative deviation of a result, where another tool gives that in place of wrong elements."""


class FittedLink(Strict):
    """Latency and inverse bandwidth that explain the times of one operation."""

    operation: Operation
    latency: Quantity
    inverse_bandwidth: Quantity
    """Seconds per byte."""
    misfit: float | None
    """Root mean square of the relative errors."""


class PairRow(Strict):
    """The link between two ranks, by sums of the two."""

    ranks: tuple[int, int]
    latency: Quantity
    bandwidth: Quantity
    """Bytes per second in each direction at once."""


class BenchCollectives(Strict):
    """The answer of `tfscale bench collectives --json`; also what `tfscale import` makes of other tools' tables."""

    schema_: Annotated[Literal["tfscale.bench_collectives/1"], Field(alias="schema")] = COLLECTIVES_SCHEMA
    level: Literal["framework", "library"] = "framework"
    """What is measured: the path of TensorFlow's own ops, with its copies and its threads, not the fabric alone; or, in
    imported tables, the calls of the library itself."""
    imported: Origin | None = None
    """Where the numbers come from that were not measured here."""
    out_of_place: bool = True
    ranks: int
    hosts: int
    launcher: str
    topology: dict[str, Any] | None
    collective: str
    effective: dict[str, Any]
    """The implementation as read back."""
    cores: tuple[tuple[int, ...], ...]
    """Cores of each rank; two ranks that share one are slower for it."""
    rows: tuple[CollectiveRow, ...]
    links: tuple[FittedLink, ...] = ()
    pairs: tuple[PairRow, ...] = ()
    racks: tuple[int, ...] | None = None
    """Rack of each rank's host as the pairs show it; None where pairs were not measured."""
    racks_reason: str | None = None
    """Why they are grouped so."""
    environment: dict[str, Any]

    model_config = ConfigDict(populate_by_name=True)
