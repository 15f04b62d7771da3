"""`tfscale doctor`, end to end: read the machine, try what a run would do, say what will not work and why."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tfscale.suite import environment
from tfscale.suite.cluster import Cluster
from tfscale.suite.doctor import reading, trials
from tfscale.suite.doctor.fabric import fabric
from tfscale.suite.doctor.findings import Examination, Finding
from tfscale.suite.doctor.security import security
from tfscale.suite.environment import Process
from tfscale.suite.plan import default_cores_per_device
from tfscale.suite.planner import Place
from tfscale.suite.preparing import prepare
from tfscale.suite.sources.base import Sources
from tfscale.suite.strategies.base import Machine

BUDGET_S = 25.0
"""Seconds for what is tried; reading takes one or two more."""
MOST_DEVICES = 2
"""Replicas that a trial has: two show that gradients travel."""


def examine(
    sources: Sources,
    process: Process,
    *,
    suite: str | None = None,
    seconds: float = BUDGET_S,
    tell: Callable[[str], None] = lambda what: None,
) -> Examination:
    """Everything that can be found in about `seconds`. Raises ValueError or OSError for a suite that cannot be read."""
    begun = time.monotonic()
    findings = list(_suite(suite)) if suite else []
    tell("reading")
    installed = reading.tensorflow()
    findings += [installed, *reading.profiler(sources), *reading.counters(sources), *fabric(sources)]
    if installed.answer == "works":
        findings += _tried(seconds, tell)
    findings += security(sources)
    facts = environment.capture(sources, process)
    return Examination(environment=facts, findings=tuple(findings), seconds=time.monotonic() - begun)


def _tried(seconds: float, tell: Callable[[str], None]) -> Iterator[Finding]:
    from tfscale.suite.launchers.local import LocalLauncher

    machine = environment.machine(Cluster())
    devices = max(1, min(MOST_DEVICES, machine.gpus if machine.gpus else machine.cores))
    tell("importing TensorFlow")
    with LocalLauncher() as launcher:
        yield from trials.attempt(trials.trials(devices), machine, place(machine, devices), launcher, seconds, tell)


def place(machine: Machine, devices: int) -> Place:
    """Where the trials run: this host's cores, shared by `devices`, and its GPUs."""
    cores = environment.host_cores()
    gpus = environment.visible_gpus() if machine.kind == "gpu" else []
    per_device = default_cores_per_device(len(cores), min(devices, len(cores)))
    return Place(host_cores=cores, cores_per_device=per_device, accelerator=machine.kind, visible_gpus=gpus)


def _suite(name: str) -> Iterator[Finding]:
    """Whether each case of a suite can run here; those that cannot share a finding by their reason."""
    plan = prepare(name, expression=None, trials=None, launcher=None)
    if plan.cases:
        detail = f"{len(plan.cases)} cases of {Path(name).name} can run here"
        yield Finding(topic="suite", name=plan.suite.name, answer="works", basis="derived", detail=detail)
    by_reason: dict[str, list[str]] = {}
    for pruned in plan.pruned:
        by_reason.setdefault(pruned.reason, []).append(" ".join(f"{k}={v}" for k, v in pruned.case.items()))
    for reason, cases in by_reason.items():
        yield Finding(
            topic="suite",
            name=plan.suite.name,
            answer="fails",
            basis="derived",
            detail=f"{len(cases)} case{'s' if len(cases) > 1 else ''} cannot run here: {reason}",
            fix="run the suite on a machine that has what is missing, or take these cases out of it",
            evidence={"cases": cases},
        )
