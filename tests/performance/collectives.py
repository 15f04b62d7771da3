"""`tfscale bench collectives` on links of netlab, against a plain socket on the same link in the same run."""

import statistics

import link
from rows import Bound, Part, Row

from tfscale.suite import collectivebench
from tfscale.suite.benchforms import CollectiveRow, Settings
from tfscale.suite.collectivebench import Wanted
from tfscale.suite.netlab.lab import Lab
from tfscale.suite.topology import Topology, spelled

MOST_TIMES = {50: 1.15, 100: 1.15, 500: 1.25}
"""Times that a 10 MB all-reduce of two ranks may take of the socket's, by rate in Mbit/s."""
LEAST_SHARE = 0.9
BUS_RATES_MBIT = (100, 500)
SIZE = 64 * 2**20
METHOD = (
    "Hosts of the netlab launcher on one switch, a rank of one core each. The socket: one TCP connection that moves 10 MB "
    "(decimal) in each direction at once, as an all-reduce of two ranks does; the median, taken on the same link just "
    "before. All-reduces go through `tfscale bench collectives`: chained in one traced function, the mean over ranks and "
    "calls, every result checked. Bus bandwidth as nccl-tests define it."
)


def run(quick: bool) -> Part:
    repeats = 3 if quick else 9
    rows = [row for rate, times in MOST_TIMES.items() for row in ten_megabytes(rate, times, repeats)]
    for rate in BUS_RATES_MBIT:
        for ranks in (2, 4):
            rows += bus(rate, ranks, repeats, bound=rate == 100)
    return Part("collectives", "Collectives against a socket", METHOD, rows)


def hosts(count: int, rate_mbit: int) -> Topology:
    return Topology.model_validate({"hosts": count, "link": rate_mbit * 10**6})


def socket_s(topology: Topology, repeats: int) -> float:
    """Median seconds of 10 MB both ways between the first two hosts."""
    with Lab(topology) as lab:
        return statistics.median(link.socket_seconds(lab, link.MEGABYTES) for _ in range(repeats))


def all_reduce(topology: Topology, size: int, budget_s: float) -> CollectiveRow:
    settings = Settings(operations=("all_reduce",), sizes=(size,), budget_s=budget_s)
    found = collectivebench.run(Wanted(settings, len(topology.hosts), "netlab", topology))
    return found.rows[0]


def wrong(what: str, row: CollectiveRow) -> Row:
    return Row(f"{what}: elements that are wrong", row.wrong, "", "measured", 1, bound=Bound("at_most", 0))


def ten_megabytes(rate_mbit: int, most: float, repeats: int) -> list[Row]:
    topology = hosts(2, rate_mbit)
    plain = socket_s(topology, repeats)
    row = all_reduce(topology, 10**7, budget_s=(repeats + 2) * 1.3 * plain)
    seconds, interval = row.seconds.value, row.seconds.ci95
    what = f"{spelled(rate_mbit * 10**6)}: 10 MB all-reduce of 2 ranks, times the socket"
    ratio = Row(
        what,
        None if seconds is None else seconds / plain,
        "",
        "derived",
        row.seconds.n_samples or 0,
        None if interval is None else (interval[0] / plain, interval[1] / plain),
        Bound("at_most", most),
        f"socket {1e3 * plain:.0f} ms; {row.seconds.reason or f'{1e3 * (seconds or 0):.0f} ms'}",
    )
    return [ratio, wrong(what.partition(",")[0], row)]


def bus(rate_mbit: int, ranks: int, repeats: int, *, bound: bool) -> list[Row]:
    topology = hosts(ranks, rate_mbit)
    rate = link.MEGABYTES * 1e6 / socket_s(topology, repeats)
    row = all_reduce(topology, SIZE, budget_s=(3 if repeats < 9 else 5) * 2 * SIZE / rate)
    found = row.bus_bandwidth.value
    what = f"{spelled(rate_mbit * 10**6)}: bus bandwidth of {ranks} ranks at 64 MiB, of the socket's rate"
    share = Row(
        what,
        None if found is None else found / rate,
        "",
        "derived",
        row.seconds.n_samples or 0,
        bound=Bound("at_least", LEAST_SHARE) if bound else None,
        note=f"socket {rate / 1e6:.2f} MB/s; {row.seconds.reason or f'{(found or 0) / 1e6:.2f} MB/s'}",
    )
    return [share, wrong(what.partition(" at")[0], row)]
