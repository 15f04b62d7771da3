"""From a suite file to the cases that run here: read, filter, prune. What `tfscale run --dry-run` shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfscale.suite import catalogue, environment, only, pruning, recoveries, registry, suitefile, trainings
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


def prepare(name: str, *, expression: str | None, trials: int | None, launcher: str | None) -> Prepared:
    """Read, filter and prune the suite `name` (a file or a ready suite). ValueError or OSError says what is wrong."""
    path = catalogue.find_suite(name)
    suite = suitefile.read(path)
    if trials is not None:
        most = max(trials, suite.measure.max_trials or 0) if suite.measure.max_trials else None
        measure = suite.measure.model_copy(update={"trials": trials, "max_trials": most})
        suite = suite.model_copy(update={"measure": measure})
    if launcher is not None:
        suite = suite.model_copy(update={"cluster": suite.cluster.model_copy(update={"launcher": launcher})})
    registry.check("launchers", suite.cluster.launcher)
    chosen = _chosen(suite.cases, expression)
    machine = environment.machine(suite.cluster)
    cases, pruned = pruning.prune(chosen, machine, suite.cluster.launcher)
    _check_data(cases)
    if suite.recovery is not None:
        pruned += recoveries.sorted_out(cases, suite.recovery, registry.load("launchers", suite.cluster.launcher))[1]
    return Prepared(suite, path.read_text(encoding="utf-8"), cases, pruned)


def _check_data(cases: Sequence[Case]) -> None:
    for case in cases:
        if case.input.path is not None and not Path(case.input.path).is_dir():
            raise ValueError(
                f"input.path {case.input.path!r} of case {case.title} is no folder here; `tfscale data make "
                f"{case.workload} --from PATH --out {case.input.path}` builds it"
            )


def _chosen(cases: Sequence[Case], expression: str | None) -> list[Case]:
    if expression is None:
        return list(cases)
    keep = only.parse(expression)
    chosen = [case for case in cases if keep(case)]
    if not chosen:
        raise only.OnlyError(f"--only {expression!r}: no case of {len(cases)} matches (see --dry-run for the cases)")
    return chosen
