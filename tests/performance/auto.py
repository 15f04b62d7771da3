"""`exchange: auto` against exchanges picked by hand, on links from fast to slow."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rows import Bound, Part, Row, from_quantity

from tfscale.suite import environment
from tfscale.suite.launch import Bench, launch
from tfscale.suite.launchers.base import Launcher
from tfscale.suite.launchers.local import LocalLauncher
from tfscale.suite.launchers.netlab import NetlabLauncher
from tfscale.suite.planner import Place
from tfscale.suite.ranks import collect
from tfscale.suite.spec import Case, Measure
from tfscale.suite.timing import job
from tfscale.suite.timing.trials import paired_ratio
from tfscale.suite.topology import Topology

EXACT = ("none", "pack(mib=1)", "pack(mib=4)", "priority")
LOSSY = ("fp16", "int8", "powersgd(rank=4)", "topk")
AUTO, AUTO_LOSSY = "auto", "auto(lossy=true)"
MOST = 1.10
METHOD = (
    "BERT mini, batch 8 a replica, sequence 128, float32, xla none, multi_worker_mirrored, ranks of one core; netlab for "
    "all links but loopback. Each exchange is one launch of a few steps: the mean step time of those that are timed. "
    "`auto` measures its links anew in each launch. Ratios: its step time over the smallest of those picked by hand; on "
    "fast links both ends are launched again in turn, with Student's interval over those pairs (log ratios). The best of "
    "several launches is a lucky one, so the first pair counts against `auto`."
)


@dataclass(frozen=True)
class Network:
    """A link to try, and how many steps show its step time."""

    name: str
    steps: int
    topology: Topology | None = None
    ranks: int = 2
    exact: tuple[str, ...] = EXACT
    lossy: tuple[str, ...] = LOSSY
    again: int = 0
    """Further launches of each end of a ratio, in turn: for links so fast that launches differ by more than exchanges."""

    @property
    def launcher(self) -> Callable[[], Launcher]:
        return LocalLauncher if self.topology is None else NetlabLauncher


def described(text: str) -> Topology:
    return Topology.model_validate({"hosts": 2, "link": text})


TWO_RACKS = Topology.model_validate(
    {
        "name": "two-racks-interleaved",
        "racks": {"a": {"link": "1Gbit", "uplink": "200Mbit"}, "b": {"link": "1Gbit", "uplink": "200Mbit"}},
        "hosts": ["a", "b", "a", "b"],
    }
)
NETWORKS = (
    Network("loopback", 20, again=3),
    Network("1 Gbit/s", 10, described("1Gbit"), again=2),
    Network("100 Mbit/s", 3, described("100Mbit"), exact=("none", "pack(mib=4)", "priority")),
    Network(
        "two racks, interleaved",
        3,
        TWO_RACKS,
        ranks=4,
        exact=("none", "hierarchical"),
        lossy=("int8", "powersgd(rank=4)", "hierarchical(cross=int8)"),
    ),
)


def run(quick: bool, cells: str = "") -> Part:
    rows: list[Row] = []
    tables: dict[str, list[list[str]]] = {}
    for network in NETWORKS:
        if cells in network.name:
            found, table = measured(
                replace(network, again=min(1, network.again)) if quick else network, 4 if quick else network.steps
            )
            rows += found
            tables[f"Step times, {network.name}"] = table
    return Part("auto", "Exchanges chosen by measured links", METHOD, rows, tables=tables)


def measured(network: Network, steps: int) -> tuple[list[Row], list[list[str]]]:
    """Rows of both kinds of auto on one network, and all step times."""
    seconds: dict[str, float] = {}
    chosen: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch, network.launcher() as launcher:
        bench = Bench(launcher, place(network), Measure(steps=steps, tail_steps=0, min_s=0.0, trials=1, dropout=0.0))

        def step_s(name: str) -> float:
            found, chosen[name] = once(bench, network, name, Path(scratch))
            return found

        for name in (*network.exact, *network.lossy, AUTO, AUTO_LOSSY):
            seconds[name] = step_s(name)
        rows = [
            against(network, AUTO, network.exact, seconds, chosen, step_s),
            against(network, AUTO_LOSSY, (*network.exact, *network.lossy), seconds, chosen, step_s),
        ]
    table = [["exchange", "step", "over none", "came down to"]]
    table += [[name, f"{1e3 * s:.0f} ms", f"{seconds['none'] / s:.2f}x", chosen[name]] for name, s in seconds.items()]
    return rows, table


def place(network: Network) -> Place:
    return Place(host_cores=environment.host_cores(), cores_per_device=1)


def once(bench: Bench, network: Network, name: str, folder: Path) -> tuple[float, str]:
    """Mean step time of one launch in seconds, and what the exchange came down to. Raises RuntimeError where it fails."""
    axes = {"topology": network.topology} if network.topology else {}
    case = Case(
        workload="bert",
        preset="mini",
        strategy="multi_worker_mirrored",
        devices=network.ranks,
        per_replica_batch=8,
        exchange=name,
        **axes,
    )
    launched = launch(bench, case, 0, folder / "trial", "timed", lambda rank, event: None, lambda: False)
    if failure := launched.outcome.failure:
        raise RuntimeError(f"{case.title}: {failure.reason}\n{launched.outcome.log_tail}")
    ranks = collect(launched.plans)
    series = [rank.series for rank in ranks]
    resolved = ranks[0].result.effective.get("resolved") or ""
    return job.merge(series, [0.0] * len(series)).step_time, str(resolved)


def against(
    network: Network,
    name: str,
    by_hand: tuple[str, ...],
    seconds: dict[str, float],
    chosen: dict[str, str],
    step_s: Callable[[str], float],
) -> Row:
    """`name` over the best of those picked by hand, both launched `again` in turn."""
    best = min(by_hand, key=lambda each: seconds[each])
    ends: dict[str, list[float]] = {best: [seconds[best]], name: [seconds[name]]}
    for number in range(network.again):
        for each in (best, name) if number % 2 else (name, best):
            ends[each].append(step_s(each))
    kind = "any" if name == AUTO_LOSSY else "exact"
    what, bound = f"{network.name}: {name} over the best of {kind}", Bound("at_most", MOST)
    means = {each: 1e3 * sum(taken) / len(taken) for each, taken in ends.items()}
    note = f"came down to {chosen[name]}, {means[name]:.0f} ms; best {best}, {means[best]:.0f} ms"
    if network.again:
        return from_quantity(what, paired_ratio(ends[best], ends[name]), bound=bound, note=note, n=len(ends[best]))
    return Row(what, seconds[name] / seconds[best], "1", "derived", 1, bound=bound, note=note)
