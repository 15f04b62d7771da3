"""The text that nccl-tests print (rccl-tests too), as documents of `tfscale bench collectives`.

Columns are taken from the header, so old layouts (without root, with `error` in place of `#wrong`) and new ones (with
`-I` or `-S`) are read alike; a launcher's prefix such as `0: `, `[1,0]<stdout>:` or `node1: ` may stand before each line.
Times are of NCCL's own calls. Bandwidths are computed again from size and time: the printed ones are rounded.
"""

from collections.abc import Iterator, Sequence

from tfscale.suite.benchforms import BenchCollectives, CollectiveRow, Operation
from tfscale.suite.collectiverows import bandwidths, link_of
from tfscale.suite.formats.base import Format, Given, Read, text_of
from tfscale.suite.formats.nccltext import OPERATIONS, Cells, Measured, Table, tables_of
from tfscale.suite.record import Quantity

LOST = "the printed bandwidths (rounded; computed again from size and time)"
_ROUNDED = 0.5
"""Of the last digit that is printed."""


def read(given: Given) -> Read:
    """One document for out-of-place and one for in-place times of the ranks. Raises FormatError naming the line."""
    tables = tables_of(given, text_of(given))
    documents: dict[str, BenchCollectives] = {}
    alike: dict[tuple[int, int, tuple[str, ...]], list[Table]] = {}
    for table in tables:
        alike.setdefault((table.ranks, table.hosts, table.devices), []).append(table)
    for number, group in enumerate(alike.values()):
        for place in dict.fromkeys(measured.place for table in group for measured in table.places):
            name = f"collectives-{place}{f'-{number + 1}' if len(alike) > 1 else ''}.json"
            documents[name] = _document(given, group, place)
    rows = sum(len(document.rows) for document in documents.values())
    if not rows:
        raise given.fail("no row of a size above 0 in it")
    return Read(documents, rows, (LOST, *_lost(tables)), tuple(_notes(tables)))


def _lost(tables: Sequence[Table]) -> Iterator[str]:
    if empty := sum(not cells.size for table in tables for cells in table.rows):
        yield f"{empty} rows of size 0"
    others = dict.fromkeys(name for table in tables for name in table.columns if name.startswith(("i_", "timestamp")))
    if others:
        yield f"columns {', '.join(others)}"


def _document(given: Given, tables: Sequence[Table], place: str) -> BenchCollectives:
    first = tables[0]
    rows = [_row(table, cells, place) for table in tables for cells in table.rows if cells.size]
    names = tuple(dict.fromkeys(row.operation for row in rows))
    return BenchCollectives(
        level="library",
        out_of_place=place == "out-of-place",
        imported=given.origin.model_copy(update={"tool": "nccl-tests"}),
        ranks=first.ranks,
        hosts=first.hosts,
        launcher="nccl-tests",
        topology=None,
        collective="nccl",
        effective={"collective": "nccl"},
        cores=(),
        rows=tuple(rows),
        links=tuple(link_of(name, rows, first.ranks) for name in names),
        environment={"gpus": list(first.devices), "hosts": list(first.names), "settings": first.settings},
    )


def _row(table: Table, cells: Cells, place: str) -> CollectiveRow:
    operation: Operation = OPERATIONS[table.operation]
    found = cells.places[place]
    seconds = Quantity(
        value=found.microseconds * 1e-6,
        unit="s",
        kind="measured",
        statistic="mean",
        n_samples=table.iterations,
    )
    algorithm, bus = bandwidths(operation, cells.size, seconds, table.ranks)
    return CollectiveRow(
        operation=operation,
        size=cells.size,
        count=cells.count,
        dtype=cells.dtype,
        reduction=cells.reduction,
        origin="sweep",
        chain=1,
        seconds=seconds,
        algorithm_bandwidth=algorithm,
        bus_bandwidth=bus,
        wrong=found.wrong,
        deviation=found.deviation,
    )


def _notes(tables: Sequence[Table]) -> Iterator[str]:
    odd = [
        (table, cells)
        for table in tables
        for cells in table.rows
        if cells.size and not all(_fits(table, cells.size, found) for found in cells.places.values())
    ]
    if odd:
        table, cells = odd[0]
        yield (
            f"line {cells.line}: the printed bus bandwidth is not that of {table.operation} over {table.ranks} ranks "
            f"({len(odd)} such rows): is the operation or the number of ranks another?"
        )
    wrong = sum(found.wrong or 0 for table in tables for cells in table.rows for found in cells.places.values())
    if wrong:
        yield f"{wrong} wrong elements: these results were not right"


def _fits(table: Table, size: int, found: Measured) -> bool:
    """Whether the printed bus bandwidth is that of size and time, as far as rounding lets one see."""
    low, high = (
        bandwidths(
            OPERATIONS[table.operation],
            size,
            Quantity(value=t * 1e-6, unit="s", kind="measured", statistic="mean"),
            table.ranks,
        )[1].value
        for t in (found.microseconds + found.time_digit, max(found.microseconds - found.time_digit, 1e-3))
    )
    spare = found.bus_digit * _ROUNDED
    return (low or 0.0) / 1e9 - spare <= found.bus * (1 + 1e-9) and found.bus * (1 - 1e-9) <= (
        high or 0.0
    ) / 1e9 + spare


FORMAT = Format(
    "the text that nccl-tests print, as `bench collectives` documents",
    read=read,
    options={
        "operation": f"what was timed, where the text does not say: {', '.join(OPERATIONS)}",
        "ranks": "how many took part, where the text has no `#  Rank` lines",
        "hosts": "on how many hosts, where the text has no `#  Rank` lines",
    },
)
