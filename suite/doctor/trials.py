"""What doctor tries: the smallest real case of each strategy, precision and XLA value, three steps each, and a profile.

They go through the planner, the launcher and the worker that a run uses, so that what works here works there.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tfscale.suite import registry
from tfscale.suite.doctor.findings import Finding, Topic
from tfscale.suite.launch import Bench, Launched, launch, load_strategy
from tfscale.suite.launchers.base import Launcher
from tfscale.suite.plan import Pass
from tfscale.suite.planner import Place
from tfscale.suite.pruning import refusal
from tfscale.suite.ranks import MergeError, collect
from tfscale.suite.spec import Case, Measure, Profile
from tfscale.suite.strategies.base import Machine

STEPS = 3
MEASURE = Measure(steps=STEPS, tail_steps=0, trials=1, launch_s=30, join_s=20, first_step_s=60, step_s=20)
PROFILE = Profile(steps=2, warm_up_steps=1, retries=0)


@dataclass(frozen=True)
class Trial:
    """One thing to try."""

    topic: Topic
    name: str
    case: Case
    pass_: Pass = "timed"


def smallest(**axes: object) -> Case:
    return Case.model_validate({"workload": "vit", "preset": "micro", "per_replica_batch": 1, **axes})


def trials(devices: int) -> list[Trial]:
    """What is worth trying on a machine for `devices` replicas, the most telling first."""
    strategies = sorted(registry.names("strategies"), key=lambda name: (name != "one_device", name))
    several = {name: devices for name in strategies if name != "one_device"}
    made = [Trial("strategy", name, smallest(strategy=name, devices=several.get(name, 1))) for name in strategies]
    made.append(Trial("profiler", "capture", smallest(), "profiled"))
    made.append(Trial("xla", "cluster", smallest(xla="cluster")))
    joined = {"strategy": "multi_worker_mirrored", "devices": devices}
    made.append(Trial("collective", "nccl", smallest(**joined, collective="nccl")))
    made.append(Trial("collective", "nccl over rdma", smallest(**joined, collective="nccl", transport="rdma")))
    made += [Trial("precision", name, smallest(precision=name)) for name in ("mixed_bfloat16", "mixed_float16", "tf32")]
    return made


def attempt(
    wanted: list[Trial],
    machine: Machine,
    place: Place,
    launcher: Launcher,
    budget_s: float,
    tell: Callable[[str], None],
) -> Iterator[Finding]:
    """Try each in turn until `budget_s` is spent; what was not reached is unknown, not good."""
    begun = time.monotonic()
    bench = Bench(launcher=launcher, place=place, measure=MEASURE, profile=PROFILE)
    with tempfile.TemporaryDirectory(prefix="tfscale-doctor-") as folder:
        for number, trial in enumerate(wanted):
            reason = refusal(trial.case, machine, launcher.name)
            if reason is not None:
                yield _finding(trial, "fails", "derived", reason)
            elif time.monotonic() - begun > budget_s:
                fix = "run `tfscale doctor` again with --seconds"
                yield _finding(trial, "unknown", "derived", f"not tried: {budget_s:g} s were spent before", fix)
            else:
                tell(f"{trial.topic} {trial.name}")
                one = Path(folder) / str(number)
                launched = launch(bench, trial.case, 0, one, trial.pass_, lambda rank, event: None, lambda: False)
                yield _judge(trial, launched, time.monotonic() - begun)


def _finding(trial: Trial, answer: str, basis: str, detail: str, fix: str | None = None, **evidence: object) -> Finding:
    told = {"topic": trial.topic, "name": trial.name, "answer": answer, "basis": basis, "detail": detail, "fix": fix}
    return Finding.model_validate({**told, "evidence": evidence})


def _judge(trial: Trial, launched: Launched, seconds: float) -> Finding:
    failure = launched.outcome.failure
    if failure is not None:
        fix = "the log of the rank tells more: run this case with `tfscale run`"
        return _finding(trial, "fails", "measured", f"{failure.classification}: {failure.reason}", fix)
    if trial.pass_ == "profiled":
        return _profile(trial, Path(launched.plans[0].trial_directory))
    try:
        rank = collect(launched.plans)[0]
    except MergeError as error:
        return _finding(trial, "fails", "measured", str(error))
    check = rank.result.self_check
    if check.passed is False:
        return _finding(trial, "fails", "measured", f"the step does not combine gradients: {check.detail}")
    effective = rank.result.effective
    if trial.topic == "precision":
        return _precision(trial, effective.get("math"), effective.get("math_reason"), effective.get("math_proof"))
    replicas = load_strategy(trial.case.strategy).replicas(trial.case)
    told = {name: effective[name] for name in ("collective", "xla", "math", "start") if name in effective}
    detail = f"{STEPS} steps on {trial.case.devices} device{'s' if trial.case.devices > 1 else ''}; {check.detail}"
    detail += f"; collective: {effective['collective']}" if effective.get("collective") else ""
    return _finding(trial, "works", "measured", detail, replicas=replicas, **told)


def _precision(trial: Trial, math: str | None, reason: str | None, proof: str | None) -> Finding:
    detail = f"trains; matrices are multiplied as {math or 'unknown'}"
    detail += f" ({reason})" if reason else f", shown by {proof}" if proof else ""
    return _finding(trial, "works", "measured", detail, math=math, proof=proof)


def _profile(trial: Trial, folder: Path) -> Finding:
    from tfscale.suite.profiling.answer import answer
    from tfscale.suite.profiling.table import TraceError

    try:
        document = answer([folder]).document
    except TraceError as error:
        return _finding(trial, "fails", "measured", f"a profile was captured and cannot be read: {error}")
    notes = document["honesty"]["notes"]
    events = sum(host["events"] for host in document["honesty"]["hosts"])
    devices = [device["device"] for host in document["hosts"] for device in host["devices"]]
    if not devices:
        return _finding(trial, "fails", "measured", notes[0] if notes else "no device has events", notes=notes)
    detail = f"{events:,} events of {', '.join(devices)}" + (f"; {notes[0]}" if notes else "")
    return _finding(trial, "works", "measured", detail, events=events, devices=devices)
