"""From a prepared suite to a finished run: what `tfscale run` does between parsing and printing."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

import yaml

from tfscale.suite import display, environment, pruning, registry, workload
from tfscale.suite.cluster import Cluster
from tfscale.suite.engine import Sweep
from tfscale.suite.interrupt import Interrupt
from tfscale.suite.lanes import places
from tfscale.suite.launch import Bench
from tfscale.suite.launchers.base import HandedOver, Launcher, Offer, Submitted
from tfscale.suite.lock import ResultsLock
from tfscale.suite.plan import default_cores_per_device
from tfscale.suite.planner import Place
from tfscale.suite.preparing import Prepared
from tfscale.suite.progress import Progress
from tfscale.suite.record import Pruned, Run
from tfscale.suite.runfolder import SUITE, RunFolder, latest_run, runs_of
from tfscale.suite.spec import Case, Suite
from tfscale.suite.strategies.base import Machine
from tfscale.suite.writable import unwritable

NEARBY = "local"
"""The launcher of trainings to a target loss, which need no network."""
DATA = ".data"
"""Folder beside the runs that holds the seeded samples for input from files without a path."""


class NothingToResumeError(ValueError):
    """`--resume` without a run of this suite that could go on."""


def run(
    prepared: Prepared,
    results: Path,
    *,
    resume: bool,
    overrides: dict[str, str],
    make: Callable[..., Sweep] = Sweep,
) -> tuple[Run, Path]:
    """Run what is prepared, with progress on stderr; the run's document and its folder.

    `overrides` are the options that the reproducing command must repeat (`--trials 5`). Raises NothingToResumeError,
    lock.HeldError where another run is at work in `results`, lanes.TooSmallError where the machine cannot be parted,
    ResultsError where results cannot be kept.

    `make` takes the fields of a Sweep and may go through its cases in an order of its own.
    """
    before = _resumed(prepared, results) if resume else None
    suite = prepared.suite
    with ExitStack() as stack:
        _lock(stack, results)
        launcher = stack.enter_context(_launcher(suite.cluster))
        site = _site(prepared, launcher)
        parts = (
            places(site.place, suite.cluster.beside, suite.cluster.cores_per_device) if suite.cluster.beside > 1 else []
        )
        place = replace(site.place, cores_per_device=parts[0].cores_per_device) if parts else site.place
        folder = _opened(before, prepared, results, site.facts)
        progress = stack.enter_context(Progress(suite.name, site.cases))
        bench = Bench(
            launcher=launcher,
            place=place,
            measure=suite.measure,
            profile=suite.profile,
            monitors=suite.monitors,
            data_of=lambda case: _sample(case, results),
        )
        lanes = _lanes(stack, bench, suite.cluster, parts)
        nearby = bench
        if suite.target_loss is not None and suite.cluster.launcher != NEARBY:
            near = suite.cluster.model_copy(update={"launcher": NEARBY})
            nearby = replace(bench, launcher=stack.enter_context(_launcher(near)))
        sweep = make(
            suite=suite.name,
            cases=site.cases,
            folder=folder,
            bench=bench,
            reproduce=lambda case: _reproduce(folder.path, case, overrides),
            environment=site.facts,
            pruned=site.pruned,
            notify=progress.tell,
            interrupt=Interrupt(progress.ending),
            created=folder.created(),
            target_loss=suite.target_loss,
            nearby=nearby,
            lanes=lanes,
            recovery=suite.recovery,
        )
        with sweep.interrupt:
            return sweep.run(), folder.path


def hand_over(
    prepared: Prepared, suite: Path, results: Path, *, only: str | None, options: Mapping[str, str]
) -> Submitted | None:
    """Give the run to the scheduler that its launcher belongs to, where it is not within its turn already.

    `suite` is its file, `options` what the command that a scheduler starts must repeat. Raises LaunchError.
    """
    kind: type[Launcher] = registry.load("launchers", prepared.suite.cluster.launcher)
    words = [word for option in options.items() for word in option]
    command = [sys.executable, "-m", "tfscale.harness", "run", str(suite.resolve()), *words]
    run = HandedOver(
        name=prepared.suite.name,
        command=command,
        only=only,
        results=results.resolve(),
        most_hosts=max((case.hosts for case in prepared.cases), default=1),
        case_ids=[case.id for case in prepared.cases],
    )
    return kind.hand_over(prepared.suite.cluster, run) if prepared.cases else None


def _lanes(stack: ExitStack, bench: Bench, cluster: Cluster, parts: Sequence[Place]) -> list[Bench]:
    """What launches on each part of this machine share; each part has a launcher."""
    making = Lock()

    def data_of(case: Case) -> Path | None:
        with making:  # two cases may want the same sample
            return bench.data_of(case)

    return [replace(bench, launcher=stack.enter_context(_launcher(cluster)), place=p, data_of=data_of) for p in parts]


def _lock(stack: ExitStack, results: Path) -> None:
    """Keep other runs out of `results` for as long as `stack` lasts."""
    try:
        lock = stack.enter_context(ResultsLock(results))
    except OSError as error:
        raise unwritable(results, error) from error
    if lock.note:
        display.err.print(f"note: {lock.note}", markup=False, soft_wrap=True)


def _opened(before: RunFolder | None, prepared: Prepared, results: Path, facts: dict[str, Any]) -> RunFolder:
    """The folder of this run: a new one, or the one that goes on."""
    try:
        if before is None:
            return RunFolder.create(results, prepared.text, facts)
        before.remove_leftovers()
        return before
    except OSError as error:
        raise unwritable(results, error) from error


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


def _launcher(cluster: Cluster) -> Launcher:
    launcher: Launcher = registry.load("launchers", cluster.launcher).of(cluster)
    return launcher


@dataclass(frozen=True)
class Site:
    """What the hosts of a run turned out to be, and which cases can run there."""

    place: Place
    facts: dict[str, Any]
    cases: list[Case]
    pruned: list[Pruned]


def _site(prepared: Prepared, launcher: Launcher) -> Site:
    """The hosts that the launcher offers, asked now. Raises LaunchError where they do not answer."""
    suite = prepared.suite
    most_hosts = max((case.hosts for case in prepared.cases), default=1)
    offer = launcher.offer(suite.cluster, most_hosts) or _own_offer(suite.cluster)
    cases, pruned = prepared.cases, prepared.pruned
    if launcher.elsewhere:
        machine = Machine(offer.cores, offer.gpus, offer.tpus, offer.kind, suite.cluster.cores_per_device or 1)
        cases, refused = pruning.prune(cases, machine, suite.cluster.launcher)
        pruned = [*pruned, *refused]
    each = launcher.environments()
    facts = {**each[0], "hosts": _differing(each)} if each else environment.capture()
    return Site(_place(suite, offer), facts, cases, pruned)


def _own_offer(cluster: Cluster) -> Offer:
    machine = environment.machine(cluster)
    return Offer(machine.cores, machine.gpus or 0, machine.kind, machine.tpus)


def _differing(each: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What each host's environment says otherwise than the first host's, by its top keys; the whole would repeat it."""
    return [
        {key: value for key, value in facts.items() if key == "host" or value != each[0].get(key)} for facts in each
    ]


def _place(suite: Suite, offer: Offer) -> Place:
    launcher: type[Launcher] = registry.load("launchers", suite.cluster.launcher)
    cores = environment.host_cores() if not launcher.elsewhere else list(range(offer.cores))
    # Fixed by the whole suite, not by what --only leaves of it: a case must have the same cores whenever it is run.
    each = [(launcher.cores_of_a_host(case, len(cores)), -(-case.devices // case.hosts)) for case in suite.cases]
    fitting = [default_cores_per_device(of_host, devices) for of_host, devices in each if devices <= of_host]
    per_device = suite.cluster.cores_per_device or min(fitting, default=len(cores))
    gpus = environment.visible_gpus() if offer.kind == "gpu" and not launcher.elsewhere else []
    return Place(host_cores=cores, cores_per_device=per_device, accelerator=offer.kind, visible_gpus=gpus)


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
