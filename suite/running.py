"""From a prepared suite to a finished run: what `tfscale run` does between parsing and printing."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import yaml

from tfscale.suite import environment, registry, workload
from tfscale.suite.engine import Sweep
from tfscale.suite.launch import Bench
from tfscale.suite.launchers.base import Launcher
from tfscale.suite.plan import default_cores_per_device
from tfscale.suite.planner import Place
from tfscale.suite.preparing import Prepared
from tfscale.suite.progress import Progress
from tfscale.suite.record import Run
from tfscale.suite.runfolder import SUITE, RunFolder, latest_run, runs_of
from tfscale.suite.spec import Case, Suite

NEARBY = "local"
"""The launcher of trainings to a target loss, which need no network."""
DATA = ".data"
"""Folder beside the runs that holds the seeded samples for input from files without a path."""


class NothingToResumeError(ValueError):
    """`--resume` without a run of this suite that could go on."""


def run(prepared: Prepared, results: Path, *, resume: bool, overrides: dict[str, str]) -> tuple[Run, Path]:
    """Run what is prepared, with progress on stderr; the run's document and its folder.

    `overrides` are the options that the reproducing command must repeat (`--trials 5`). Raises NothingToResumeError.
    """
    folder = _resumed(prepared, results) if resume else None
    facts = environment.capture()
    if folder is None:
        folder = RunFolder.create(results, prepared.text, facts)
    else:
        folder.remove_leftovers()
    suite = prepared.suite
    with ExitStack() as stack:
        launcher = stack.enter_context(_launcher(suite.cluster.launcher))
        progress = stack.enter_context(Progress(len(prepared.cases)))
        bench = Bench(
            launcher=launcher,
            place=_place(suite),
            measure=suite.measure,
            profile=suite.profile,
            monitors=suite.monitors,
            data_of=lambda case: _sample(case, results),
        )
        nearby = bench
        if suite.target_loss is not None and suite.cluster.launcher != NEARBY:
            nearby = replace(bench, launcher=stack.enter_context(_launcher(NEARBY)))
        sweep = Sweep(
            suite=suite.name,
            cases=prepared.cases,
            folder=folder,
            bench=bench,
            reproduce=lambda case: _reproduce(folder.path, case, overrides),
            environment=facts,
            pruned=prepared.pruned,
            notify=progress.tell,
            created=folder.created(),
            target_loss=suite.target_loss,
            nearby=nearby,
            recovery=suite.recovery,
        )
        with sweep.interrupt:
            return sweep.run(), folder.path


def _resumed(prepared: Prepared, results: Path) -> RunFolder:
    """The newest run of this very suite under `results`, or the run folder `results` itself."""
    candidates = [results] if (results / SUITE).is_file() else runs_of(results)
    for path in reversed(candidates):
        try:
            stored = yaml.safe_load((path / SUITE).read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError):
            continue  # not a run of ours, or damaged: it cannot be this suite's
        if stored == yaml.safe_load(prepared.text):
            return RunFolder(path)
    raise NothingToResumeError(
        f"--resume: no run of this suite in {results} ({len(candidates)} of others, or of an older text of it)"
    )


def _launcher(name: str) -> Launcher:
    launcher: Launcher = registry.load("launchers", name)()
    return launcher


def _place(suite: Suite) -> Place:
    cores = environment.host_cores()
    accelerator = environment.accelerator(suite.cluster.accelerator)
    launcher: type[Launcher] = registry.load("launchers", suite.cluster.launcher)
    # Fixed by the whole suite, not by what --only leaves of it: a case must have the same cores whenever it is run.
    each = [(launcher.cores_of_a_host(case, len(cores)), -(-case.devices // case.hosts)) for case in suite.cases]
    fitting = [default_cores_per_device(of_host, devices) for of_host, devices in each if devices <= of_host]
    per_device = suite.cluster.cores_per_device or min(fitting, default=len(cores))
    gpus = environment.visible_gpus() if accelerator == "gpu" else []
    return Place(host_cores=cores, cores_per_device=per_device, accelerator=accelerator, visible_gpus=gpus)


def _sample(case: Case, results: Path) -> Path | None:
    """The TFRecord folder of a case with input from files; a seeded sample is made where no path is given."""
    if case.input.kind != "files" or case.input.path is not None:
        return None
    holder = results if latest_run(results) else results.parent
    return workload.load(case.workload).sample_data(case.preset, holder / DATA, case.seed)


def _reproduce(folder: Path, case: Case, overrides: dict[str, str]) -> str:
    """The command that runs just this case again."""
    import shlex

    words = ["tfscale", "run", str((folder / SUITE).resolve()), "--only", f"id={case.id}"]
    return shlex.join(words + [word for option in overrides.items() for word in option])


def exit_code(finished: Run) -> int:
    """0 all good; 1 a finding: a case failed, is INVALID or did not come back from a failure; 3 not all cases were run."""
    if finished.missing:
        return 3
    invalid = any(case.validity.status == "INVALID" for case in finished.cases)
    lost = any(result.validity.status == "INVALID" for result in finished.recoveries)
    return 1 if finished.failed or invalid or lost else 0
