"""From a suite file to the cases that run here: read, filter, prune. What `tfscale run --dry-run` shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tfscale.suite import catalogue, environment, only, pruning, recoveries, registry, suitefile, trainings
from tfscale.suite.cluster import Cluster
from tfscale.suite.launchers.base import Launcher
from tfscale.suite.record import Pruned
from tfscale.suite.spec import Case, Suite


@dataclass(frozen=True)
class Prepared:
    """A suite ready to run on this machine."""

    suite: Suite
    text: str
    """The suite file as the user wrote it."""
    cases: list[Case]
    pruned: list[Pruned]

    @property
    def device_hours(self) -> float:
        return pruning.device_hours(self.cases, self.suite.measure)

    @property
    def needed(self) -> list[trainings.Training]:
        """Trainings to a target loss; the hours of the cases do not hold them: nobody knows yet how long a step takes."""
        wanted = self.suite.target_loss
        return trainings.trainings(self.cases, wanted) if wanted else []

    @property
    def recoveries(self) -> list[Case]:
        """Cases of the scenario `recovery`: for each a training without a failure, and two launches for each seed."""
        wanted = self.suite.recovery
        launcher = registry.load("launchers", self.suite.cluster.launcher)
        return recoveries.sorted_out(self.cases, wanted, launcher)[0] if wanted else []

    def dry_run_document(self) -> dict[str, Any]:
        """The answer of `run --dry-run --json`."""
        return {
            "schema": "tfscale.dry_run/1",
            "suite": self.suite.name,
            "cases": [{"case_id": case.id, "case": case.model_dump(mode="json")} for case in self.cases],
            "pruned": [pruned.model_dump(mode="json") for pruned in self.pruned],
            "device_hours_at_most": self.device_hours,
            "trainings": len(self.needed),
            "recoveries": len(self.recoveries),
        }


def prepare(
    name: str, *, expression: str | None, trials: int | None, launcher: str | None, hosts: str | None = None
) -> Prepared:
    """Read, filter and prune the suite `name` (a file or a ready suite). ValueError or OSError says what is wrong."""
    path = catalogue.find_suite(name)
    suite = suitefile.read(path)
    if trials is not None:
        most = max(trials, suite.measure.max_trials or 0) if suite.measure.max_trials else None
        measure = suite.measure.model_copy(update={"trials": trials, "max_trials": most})
        suite = suite.model_copy(update={"measure": measure})
    suite = suite.model_copy(update={"cluster": _placed(suite.cluster, launcher, hosts)})
    registry.check("launchers", suite.cluster.launcher)
    chosen = suite.cases if expression is None else only.chosen(suite.cases, expression)
    kind: type[Launcher] = registry.load("launchers", suite.cluster.launcher)
    if suite.cluster.beside > 1 and not kind.shares:
        raise ValueError(
            f"cluster.beside {suite.cluster.beside}: launcher {suite.cluster.launcher} runs one case at a time; leave it "
            "out, or use launcher local"
        )
    if kind.elsewhere:  # what the hosts have is known when they are asked, as the run begins
        cases, pruned = pruning.prune_unseen(chosen, suite.cluster.launcher)
    else:
        cases, pruned = pruning.prune(chosen, environment.machine(suite.cluster), suite.cluster.launcher)
    _check_data(cases)
    if suite.recovery is not None:
        pruned += recoveries.sorted_out(cases, suite.recovery, registry.load("launchers", suite.cluster.launcher))[1]
    return Prepared(suite, path.read_text(encoding="utf-8"), cases, pruned)


def _placed(cluster: Cluster, launcher: str | None, hosts: str | None) -> Cluster:
    """`cluster` with what the command line says otherwise. Raises ValueError."""
    told = {"launcher": launcher} if launcher is not None else {}
    if hosts is None:
        return cluster.model_copy(update=told)
    try:
        return Cluster.model_validate({**cluster.model_dump(), "hosts_file": None, "hosts": hosts, **told})
    except ValidationError as error:
        raise ValueError(f"--hosts {hosts!r}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from error


def _check_data(cases: Sequence[Case]) -> None:
    for case in cases:
        if case.input.path is not None and not Path(case.input.path).is_dir():
            raise ValueError(
                f"input.path {case.input.path!r} of case {case.title} is no folder here; `tfscale data make "
                f"{case.workload} --from PATH --out {case.input.path}` builds it"
            )
