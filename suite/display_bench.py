"""The tables of `tfscale bench collectives`, in the columns of nccl-tests."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tfscale.suite.benchforms import BenchCollectives, CollectiveRow, FittedLink
from tfscale.suite.display import err, number, quantity

HEADINGS = ("size (B)", "count", "type", "op", "time (us)", "algbw (GB/s)", "busbw (GB/s)", "#wrong", "of")


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """One line on stderr while ranks measure."""
    with err.status("starting ranks") as status:
        yield lambda text: status.update(text)


def collectives(found: BenchCollectives, console: Console) -> None:
    """All operations, their fits, and the links between pairs where they were measured."""
    where = f"topology {found.topology.get('name') or 'described'}" if found.topology else "no described network"
    console.print(
        f"framework level: TensorFlow's own ops, with its copies and threads, not the fabric alone; out of place; "
        f"means over {found.ranks} ranks on {found.hosts} host(s), launcher {found.launcher}, {where}, "
        f"collective {found.effective.get('collective') or found.collective}",
        markup=False,
        soft_wrap=True,
    )
    taken = [core for cores in found.cores for core in cores]
    if found.hosts == 1 and len(set(taken)) < len(taken):
        console.print("ranks share cores: there are more ranks than cores, and each is slower for it")
    for operation in dict.fromkeys(row.operation for row in found.rows):
        _operation(operation, [row for row in found.rows if row.operation == operation], console)
        for link in (each for each in found.links if each.operation == operation):
            _link(link, console)
    if found.pairs:
        _pairs(found, console)


def _operation(name: str, rows: list[CollectiveRow], console: Console) -> None:
    reasons = {row.seconds.reason for row in rows}
    if len(reasons) == 1 and None not in reasons:
        console.print(f"\n{name}: {escape(str(reasons.pop()))}")
        return
    table = Table(*HEADINGS, title=f"\n{name}", title_justify="left", box=None, pad_edge=False)
    for column in table.columns[:2] + table.columns[4:8]:
        column.justify = "right"
    for row in sorted(rows, key=lambda row: (row.size, row.origin)):
        head = (str(row.size), str(row.count), "float", row.reduction or "none")
        if row.seconds.value is None:
            table.add_row(*head, "-", "-", "-", "-", escape(row.seconds.reason or ""))
            continue
        rates = [f"{(q.value or 0.0) / 1e9:.4g}" for q in (row.algorithm_bandwidth, row.bus_bandwidth)]
        origin = "" if row.origin == "sweep" else row.origin
        table.add_row(*head, f"{row.seconds.value * 1e6:.1f}", *rates, str(row.wrong), escape(origin))
    console.print(table)


def _link(link: FittedLink, console: Console) -> None:
    if link.latency.value is None:
        return
    inverse = link.inverse_bandwidth
    rate = "without a limit that shows" if not inverse.value else number(1 / inverse.value, "B/s")
    misfit = f"; errors {link.misfit:.0%}" if link.misfit is not None else ""
    console.print(escape(f"a message takes {quantity(link.latency)} and goes at {rate}{misfit}"), soft_wrap=True)


def _pairs(found: BenchCollectives, console: Console) -> None:
    table = Table("ranks", "latency", "bandwidth", title="\npairs", title_justify="left", box=None, pad_edge=False)
    for row in found.pairs:
        table.add_row(f"{row.ranks[0]}, {row.ranks[1]}", escape(quantity(row.latency)), escape(quantity(row.bandwidth)))
    console.print(table)
    console.print(
        f"racks: {' '.join(map(str, found.racks or ()))} ({found.racks_reason})", markup=False, soft_wrap=True
    )
