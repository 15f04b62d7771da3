"""`tfscale bench collectives`: ranks are launched as those of a case, and what they measured becomes one document."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfscale.suite import environment, registry, workload
from tfscale.suite.benchforms import CELLS, SETTINGS, BenchCollectives, RankCells, Settings
from tfscale.suite.collectiverows import document
from tfscale.suite.launch import Bench, launch
from tfscale.suite.launchers.base import Launcher
from tfscale.suite.launchers.local import workload_modules
from tfscale.suite.plan import RankPlan
from tfscale.suite.planner import Place
from tfscale.suite.spec import Case, Collective, Measure
from tfscale.suite.topology import Topology

WORKER = "tfscale.workloads.micro.collectives"
SMALLEST, FACTOR = 1024, 4
_SPARE_S = 120.0
"""Beyond the budget, before a rank that says nothing counts as hung."""


@dataclass(frozen=True)
class Wanted:
    """What is to be measured, and where."""

    settings: Settings
    ranks: int
    launcher: str
    topology: Topology | None = None
    collective: Collective = "auto"


def sizes(most: int, factor: int = FACTOR) -> tuple[int, ...]:
    """1 KiB and its multiples by powers of `factor`, up to `most` bytes."""
    found = [SMALLEST]
    while found[-1] * factor <= most:
        found.append(found[-1] * factor)
    return tuple(found)


def case_of(wanted: Wanted) -> Case:
    """The case whose ranks are borrowed; its model is not built. Raises ValueError."""
    name, preset = wanted.settings.sizes_of or ("bert", "tiny")
    workload.check(name, preset)
    axes: dict[str, Any] = {"topology": wanted.topology} if wanted.topology else {}
    return Case(
        workload=name,
        preset=preset,
        strategy="multi_worker_mirrored",
        devices=wanted.ranks,
        per_replica_batch=1,
        collective=wanted.collective,
        **axes,
    )


def run(wanted: Wanted, tell: Callable[[str], None] = lambda text: None) -> BenchCollectives:
    """Launch, measure, gather. Raises ValueError for what cannot be asked, RuntimeError where ranks fail."""
    case = case_of(wanted)
    kind: type[Launcher] = registry.load("launchers", wanted.launcher)
    if reason := kind.refuses(case):
        raise ValueError(reason)
    modules = workload_modules if wanted.settings.sizes_of else _no_modules
    with tempfile.TemporaryDirectory(prefix="tfscale-bench-") as scratch, kind(worker=WORKER, modules_of=modules) as on:  # type: ignore[call-arg]
        (Path(scratch) / SETTINGS).write_text(wanted.settings.model_dump_json())
        plans = _launched(wanted, case, on, Path(scratch) / "trial", tell)
        left = [RankCells.model_validate_json((Path(plan.directory) / CELLS).read_bytes()) for plan in plans]
    return document(
        left,
        operations=wanted.settings.operations,
        ranks=wanted.ranks,
        hosts=case.hosts,
        launcher=wanted.launcher,
        topology=case.topology.model_dump(mode="json") if case.topology else None,
        collective=wanted.collective,
        cores=tuple(tuple(plan.cores) for plan in plans),
        environment=environment.capture(),
    )


def _no_modules(case: Case) -> list[str]:
    return []


def _launched(
    wanted: Wanted, case: Case, launcher: Launcher, trial: Path, tell: Callable[[str], None]
) -> list[RankPlan]:
    limit = wanted.settings.budget_s + _SPARE_S
    measure = Measure(first_step_s=limit, step_s=limit)
    bench = Bench(launcher=launcher, place=_place(wanted.ranks), measure=measure)

    def on_event(rank: int, event: dict[str, Any]) -> None:
        if rank == 0 and event["event"] == "progress":
            tell(f"measured {event['step']}")

    launched = launch(bench, case, 0, trial, "timed", on_event, lambda: False)
    if failure := launched.outcome.failure:
        raise RuntimeError(f"{failure.classification}: {failure.reason}\n{launched.outcome.log_tail}".strip())
    return launched.plans


def _place(ranks: int) -> Place:
    """One core a rank; where there are more ranks than cores, ranks share, and the document says which."""
    cores = environment.host_cores()
    accelerator = environment.accelerator("auto")
    gpus = environment.visible_gpus() if accelerator == "gpu" else []
    shared = [cores[rank % len(cores)] for rank in range(max(ranks, len(cores)))]
    return Place(host_cores=shared, cores_per_device=1, accelerator=accelerator, visible_gpus=gpus)
