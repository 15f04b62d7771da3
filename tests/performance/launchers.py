"""What placing ranks costs: the plan of a large job, and 64 ranks without TensorFlow through each launcher."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import stats
from rows import Bound, Part, Row, from_quantity

HERE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HERE / "toy"), str(HERE / "system")]
import slurm_cluster  # noqa: E402
import toy_bench as toy  # noqa: E402

from tfscale.suite.cluster import Cluster  # noqa: E402
from tfscale.suite.events import EventReader  # noqa: E402
from tfscale.suite.launch import Bench, launch  # noqa: E402
from tfscale.suite.launchers.base import Host, Launcher  # noqa: E402
from tfscale.suite.launchers.slurm import SlurmLauncher  # noqa: E402
from tfscale.suite.plan import RankPlan  # noqa: E402
from tfscale.suite.planner import Folders, Place, plan_launch  # noqa: E402
from tfscale.suite.spec import Measure  # noqa: E402
from tfscale.suite.strategies.base import Strategy  # noqa: E402

RANKS, NODES = 64, 8
PLANNED, PER_HOST = 1024, 8
METHOD = (
    f"Plan: the plans of {PLANNED} ranks of multi_worker_mirrored on {PLANNED // PER_HOST} hosts, ports given, wall time. "
    f"Launch: {RANKS} ranks that only tell where they are (no TensorFlow), all on this machine: from the order to run the "
    "case until the last rank has run its first line, and until no process is left. local: 64 forks of one warm parent; "
    f"slurm: a real Slurm with {NODES} nodes on this machine, {RANKS // NODES} ranks a node, agents running, every port of "
    "every node tried from every other node before. The first launch is left out: it starts agents and parents."
)
MEASURE = Measure(launch_s=120, join_s=120, first_step_s=120, step_s=60, trials=1)


def run(quick: bool) -> Part:
    from tfscale.suite.launch import load_strategy

    times = 3 if quick else 10
    seconds = planned(load_strategy("multi_worker_mirrored"), times)
    rows = [_row(f"plan of {PLANNED} ranks", seconds, Bound("at_most", 1.0, "s"))]
    os.environ["PYTHONPATH"] = str(toy.HERE)
    with tempfile.TemporaryDirectory(prefix="tfscale-launchers-") as scratch:
        folder = Path(scratch)
        with toy.launcher() as local:
            rows += launched("local", local, 1, folder, times)
        if (reason := slurm_cluster.missing()) is not None:
            rows.append(Row("slurm", None, "s", "measured", 0, note=reason))
            return Part("launchers", "Placing many ranks", METHOD, rows)
        with slurm(folder / "slurm") as ranks:
            rows += launched("slurm", ranks, NODES, folder, times)
    return Part("launchers", "Placing many ranks", METHOD, rows)


def planned(strategy: Strategy, times: int) -> list[float]:
    """Seconds of each plan of a large job."""
    case = toy.case(devices=PLANNED, hosts=PLANNED // PER_HOST).with_values(
        strategy="multi_worker_mirrored", ranks="device"
    )
    hosts = [Host(f"10.0.{n // 250}.{n % 250 + 1}", tuple(range(PER_HOST))) for n in range(case.hosts)]
    place = Place(list(range(PER_HOST)), 1, ports=lambda count: list(range(10_000, 10_000 + count)))
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        plans = plan_launch(
            case,
            0,
            strategy,
            place,
            Folders(Path("/nowhere")),
            measure=MEASURE,
            profile=None,
            pass_="timed",
            hosts=hosts,
        )
        seconds.append(time.perf_counter() - began)
        assert len(plans) == PLANNED
    return seconds


def launched(name: str, launcher: Launcher, hosts: int, folder: Path, times: int) -> list[Row]:
    bench = Bench(launcher, toy.PLACE, MEASURE, strategy_of=lambda case: toy.Spread())
    case = toy.case(devices=RANKS, hosts=hosts)
    started, whole = [], []
    for number in range(times + 1):
        trial = folder / f"{name}{number}"
        began = time.perf_counter()
        told = launch(bench, case, 0, trial, "timed", lambda *_: None, lambda: False)
        wall = time.perf_counter() - began
        if told.outcome.failure is not None:
            raise RuntimeError(f"{name}: {told.outcome.failure.reason}\n{told.outcome.log_tail}")
        if number:
            started.append(max(map(_first_line, told.plans)) - began)
            whole.append(wall)
    return [
        _row(f"{name}: {RANKS} ranks until the last has begun", started),
        _row(f"{name}: {RANKS} ranks, the whole case", whole),
    ]


def _first_line(plan: RankPlan) -> float:
    """When the rank ran its first line, on this machine's clock."""
    events = EventReader(Path(plan.directory)).read()
    return float(next(event["t_ns"] for event in events if event.get("name") == "started")) / 1e9


def _row(what: str, seconds: list[float], bound: Bound | None = None) -> Row:
    return from_quantity(what, stats.mean(seconds, "s"), bound=bound)


@contextmanager
def slurm(folder: Path) -> Iterator[SlurmLauncher]:
    """The launcher within an allocation of a cluster that is made for it."""
    before = dict(os.environ)
    with ExitStack() as stack:
        nodes = tuple(f"node{number}" for number in range(1, NODES + 1))
        variables = stack.enter_context(slurm_cluster.cluster(folder, nodes))
        try:
            os.environ.update(stack.enter_context(slurm_cluster.allocated(variables, NODES)))
            yield stack.enter_context(SlurmLauncher(Cluster(launcher="slurm"), worker=toy.WORKER))
        finally:
            for name in os.environ.keys() - before.keys():
                del os.environ[name]
