"""Builders for tests that run toy workers: a strategy of n ranks, a workload without a model, cases, benches, sweeps.

Put this folder on sys.path and, for the ranks, on PYTHONPATH: `toy_bench.use(monkeypatch)`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tfscale.suite.engine import Sweep
from tfscale.suite.launch import Bench
from tfscale.suite.launchers.base import Launcher
from tfscale.suite.launchers.local import LocalLauncher
from tfscale.suite.plan import RankPlan
from tfscale.suite.planner import Folders, Place, plan_launch
from tfscale.suite.runfolder import RunFolder, latest_run
from tfscale.suite.spec import Case, Measure
from tfscale.suite.strategies.base import RankLayout, Session, Strategy
from tfscale.suite.workload import Feature, Flops, OptimizerSpec, Workload

HERE = Path(__file__).parent
WORKER = "toy_worker"
QUICK = Measure(launch_s=2, join_s=2, first_step_s=2, step_s=1, trials=1)
PLACE = Place(host_cores=[], cores_per_device=0)


class Ranks(Strategy):
    """`devices` worker processes in one job."""

    name = "ranks"
    resumes = True

    def layout(self, case: Case) -> list[RankLayout]:
        return [RankLayout("worker", index, 0, 1, index) for index in range(case.devices)]

    def open(self, plan: RankPlan) -> Session:
        raise NotImplementedError


class Spread(Ranks):
    """`devices` worker processes in one job, shared out over the hosts."""

    name = "spread"

    def layout(self, case: Case) -> list[RankLayout]:
        each = case.devices // case.hosts
        return [RankLayout("worker", index, index // each, 1, index) for index in range(case.devices)]


class Apart(Ranks):
    """`devices` worker processes that have nothing to say to each other."""

    name = "apart"
    exchanges = False

    def replicas(self, case: Case) -> int:
        return 1


class Toy(Workload):
    name = "toy"
    sample = "sample"
    model_module = "none"
    presets: Mapping[str, Any] = {"good": None}
    optimizer = OptimizerSpec("sgd", 0.1)

    def parameters(self, preset: str) -> int:
        return 1

    def flops(self, preset: str, batch: int) -> Flops:
        return Flops(forward=batch, backward=2 * batch)

    def features(self, preset: str) -> dict[str, Feature]:
        return {"x": Feature((1,), "float32")}

    def synthetic(
        self, preset: str, *, seed: int, index: int, batch: int, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        raise NotImplementedError


WORKLOAD = Toy()


def use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the ranks of this test find the toy modules."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.syspath_prepend(str(HERE))


def case(preset: str = "good", devices: int = 2, strategy: str = "Ranks", **axes: Any) -> Case:
    return Case(
        workload="toy_bench:WORKLOAD",
        preset=preset,
        strategy=f"toy_bench:{strategy}",
        devices=devices,
        per_replica_batch=4,
        **axes,
    )


def numbered(presets: Sequence[str]) -> list[Case]:
    """A case a preset, made different by a variable that nothing reads."""
    return [case(preset, env={"NCCL_TEST": str(number)}) for number, preset in enumerate(presets)]


def launcher(**options: Any) -> LocalLauncher:
    return LocalLauncher(worker=WORKER, preload=(), modules_of=lambda case: [], **options)


def plans(case: Case, folder: Path, measure: Measure = QUICK, place: Place = PLACE, trial: int = 0) -> list[RankPlan]:
    strategy = Apart() if case.strategy.endswith("Apart") else Ranks()
    return plan_launch(case, trial, strategy, place, Folders(folder), measure=measure, profile=None, pass_="timed")


def sweep(cases: list[Case], results: Path, ranks: Launcher, measure: Measure = QUICK, **options: Any) -> Sweep:
    """A new run of `cases` under `results`; `place`, `profile` and fields of Sweep may be given."""
    bench = Bench(
        launcher=ranks, place=options.pop("place", PLACE), measure=measure, profile=options.pop("profile", None)
    )
    folder = options.pop("folder", None) or RunFolder.create(results, "name: toy\n", {"host": "here"})
    return Sweep(
        suite="toy",
        cases=cases,
        folder=folder,
        bench=bench,
        reproduce=lambda case: f"tfscale run suite.yaml --only id={case.id}",
        environment={"host": "here"},
        **options,
    )


def latest(results: Path) -> RunFolder | None:
    """The newest run under `results`, to be resumed; None where there is none."""
    found = latest_run(results)
    return RunFolder(found) if found else None


def ports_of(plans: list[RankPlan]) -> list[int]:
    return [int(address.rpartition(":")[2]) for addresses in plans[0].cluster.values() for address in addresses]
