"""What a launch costs: forked from a warm parent against fresh interpreters, and the totals of a sweep."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import stats
from rows import Bound, Part, Row, from_quantity

from tfscale.suite import environment, workload
from tfscale.suite.events import EventReader
from tfscale.suite.launch import Bench, Launched
from tfscale.suite.launch import launch as launch_case
from tfscale.suite.launchers.base import Job, Launcher
from tfscale.suite.launchers.local import LocalLauncher
from tfscale.suite.plan import RankPlan, default_cores_per_device
from tfscale.suite.planner import Place
from tfscale.suite.spec import Case, Measure

BATCHES = {"bert": 8, "vit": 32, "recommender": 256}
MEASURE = Measure(steps=20, tail_steps=0, min_s=0.0, trials=1)
METHOD = (
    "Two-rank cases (multi_worker_mirrored) of each workload's smallest preset, 20 steps, no tail, no profile. Launch "
    "cost: from the call of the launcher's start() to the event that a rank writes when TensorFlow is imported and its "
    "first line of model code follows, the later rank, on one clock; the warm parent has imported before. Wall time: from "
    "the order to run a case until its processes are gone, forked and fresh in turn (A B B A), Student's interval over "
    "pairs. Totals include the one import."
)


class Stamped(Launcher):
    """Another launcher, with the time of its last start."""

    name: ClassVar[str] = "stamped"

    def __init__(self, inner: Launcher) -> None:
        self.inner = inner
        self.began_ns = 0

    def start(self, plans: Sequence[RankPlan]) -> Job:
        self.began_ns = time.perf_counter_ns()
        return self.inner.start(plans)

    def close(self) -> None:
        self.inner.close()


def run(quick: bool) -> Part:
    cores = environment.host_cores()
    place = Place(host_cores=cores, cores_per_device=default_cores_per_device(len(cores), 2))
    cases = [two_ranks(name) for name in BATCHES]
    with tempfile.TemporaryDirectory() as scratch, LocalLauncher() as warm, LocalLauncher(fork=False) as cold:
        folder = Path(scratch)
        forked = Bench(Stamped(warm), place, MEASURE)
        fresh = replace(forked, launcher=Stamped(cold))
        total_rows, fresh_case_s = sweep(quick, place, cases, folder)
        once(forked, cases[0], folder)  # the one import, and what the operating system keeps of files
        once(fresh, cases[0], folder)
        pair_rows: list[Row] = []
        fresh_s: list[float] = []
        for case in cases:
            rows, seconds = compare(quick, forked, fresh, case, folder)
            pair_rows += rows
            fresh_s += seconds
    mean_fresh = stats.mean(fresh_s, "s").value or fresh_case_s
    derived = [
        Row(
            f"total of {n} cases, fresh interpreters",
            n * mean_fresh,
            "s",
            "derived",
            len(fresh_s),
            note="n x mean case",
        )
        for n in counts(quick)
    ]
    return Part("launch", "Launch cost", METHOD, [*pair_rows, *total_rows, *derived])


def counts(quick: bool) -> tuple[int, ...]:
    return (2, 3) if quick else (8, 32)


def two_ranks(name: str) -> Case:
    preset = next(iter(workload.load(name).presets))
    return Case(
        workload=name, preset=preset, strategy="multi_worker_mirrored", devices=2, per_replica_batch=BATCHES[name]
    )


def once(bench: Bench, case: Case, folder: Path) -> tuple[float, float]:
    """Run `case` once: seconds of wall time, and of the launch. Raises RuntimeError where it fails."""
    began = time.perf_counter()
    launched = launch_case(bench, case, 0, folder / "trial", "timed", lambda rank, event: None, lambda: False)
    wall = time.perf_counter() - began
    if launched.outcome.failure is not None:
        raise RuntimeError(f"{case.title}: {launched.outcome.failure.reason}\n{launched.outcome.log_tail}")
    assert isinstance(bench.launcher, Stamped)
    return wall, launch_seconds(launched, bench.launcher.began_ns)


def launch_seconds(launched: Launched, began_ns: int) -> float:
    """From the start() call until the last rank has TensorFlow and goes on to the case's own code."""
    stamps = []
    for plan in launched.plans:
        events = EventReader(Path(plan.directory)).read()
        stamps.append(next(e["t_ns"] for e in events if e.get("name") == "imported"))
    return (max(stamps) - began_ns) / 1e9


def compare(quick: bool, forked: Bench, fresh: Bench, case: Case, folder: Path) -> tuple[list[Row], list[float]]:
    """Rows of one workload, and the wall times of its fresh runs."""
    launches: dict[bool, list[float]] = {False: [], True: []}

    def pair(number: int) -> tuple[float, float]:
        walls: dict[bool, float] = {}
        for is_fresh in (False, True) if number % 2 == 0 else (True, False):
            wall, launch_s = once(fresh if is_fresh else forked, case, folder)
            walls[is_fresh] = wall
            launches[is_fresh].append(launch_s)
        return walls[True], walls[False]

    least, most = (2, 2) if quick else (3, 12)
    fresh_s, forked_s, ratio = stats.pairs_until(
        pair, least=least, most=most, enough=lambda r: stats.half_width(r) < 0.2
    )
    name = f"{case.workload} {case.preset}, two ranks"
    saved = stats.mean_difference(fresh_s, forked_s, "s")
    rows = [
        from_quantity(f"{name}: launch", stats.mean(launches[False], "s"), bound=Bound("at_most", 0.5, "s")),
        from_quantity(
            f"{name}: launch, fresh interpreters", stats.mean(launches[True], "s"), note="what there is to save"
        ),
        from_quantity(f"{name}: wall time, forked", stats.mean(forked_s, "s")),
        from_quantity(f"{name}: wall time, fresh interpreters", stats.mean(fresh_s, "s")),
        from_quantity(
            f"{name}: saved", saved, bound=Bound("at_least", 6.0, "s"), note=f"forked / fresh {ratio.value:.3f}"
        ),
    ]
    return rows, fresh_s


def sweep(quick: bool, place: Place, cases: Sequence[Case], folder: Path) -> tuple[list[Row], float]:
    """Totals of many forked cases with a launcher of their own, the import included; and the last case's seconds."""
    rows: list[Row] = []
    with LocalLauncher() as launcher:
        bench = Bench(Stamped(launcher), place, MEASURE)
        began = time.perf_counter()
        for number in range(1, max(counts(quick)) + 1):
            wall, _ = once(bench, cases[number % len(cases)], folder)
            if number in counts(quick):
                total = time.perf_counter() - began
                rows.append(
                    Row(f"total of {number} cases, forked", total, "s", "measured", number, note="with the import")
                )
    return rows, wall
