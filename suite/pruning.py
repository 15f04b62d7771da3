"""Which cases of a suite cannot or need not run on a machine, each with its reason. Pure."""

from collections.abc import Callable, Sequence

from tfscale.suite import registry
from tfscale.suite.exchange import base as exchanges
from tfscale.suite.exchange.parse import parse
from tfscale.suite.launchers.base import Launcher
from tfscale.suite.record import Pruned
from tfscale.suite.spec import Case, Measure
from tfscale.suite.strategies.base import Machine, Strategy

LAUNCH_S = 10.0
"""Rough seconds that a launch costs beyond its timed budget, for the estimate of a dry run only."""


def prune(cases: Sequence[Case], machine: Machine, launcher: str) -> tuple[list[Case], list[Pruned]]:
    """The cases that run, in order, and the others with their reasons."""
    return _sorted_out(cases, lambda case: refusal(case, machine, launcher))


def prune_unseen(cases: Sequence[Case], launcher: str) -> tuple[list[Case], list[Pruned]]:
    """As `prune`, by what can be said before the hosts are known."""

    def reason_of(case: Case) -> str | None:
        strategy: Strategy = registry.load("strategies", case.strategy)()
        return _exchange(case, strategy) or _hosts(case, launcher)

    return _sorted_out(cases, reason_of)


def _sorted_out(cases: Sequence[Case], reason_of: Callable[[Case], str | None]) -> tuple[list[Case], list[Pruned]]:
    kept: list[Case] = []
    pruned: list[Pruned] = []
    for case in cases:
        reason = reason_of(case)
        if reason is None:
            kept.append(case)
        else:
            pruned.append(Pruned(case=case.axes(), reason=reason))
    return kept, pruned


def refusal(case: Case, machine: Machine, launcher: str) -> str | None:
    """Why `case` is not run on hosts like `machine`, or None. What only the strategy knows is asked of it."""
    strategy: Strategy = registry.load("strategies", case.strategy)()
    return (
        _hardware(case, machine, launcher)
        or _transport(case, machine)
        or _exchange(case, strategy)
        or _hosts(case, launcher)
        or strategy.refuses(case, machine)
    )


def _hardware(case: Case, machine: Machine, launcher: str) -> str | None:
    if machine.kind == "gpu" and not machine.gpus:
        return "cluster.accelerator is gpu, and no GPU is visible here"
    if machine.kind == "tpu" and machine.tpus == 0:
        return "cluster.accelerator is tpu, and there is no TPU here"
    if machine.kind == "tpu" and case.strategy != "tpu":
        return f"{case.strategy} on a TPU: only the strategy tpu runs there"
    if not machine.gpus and case.precision == "tf32":
        return "tf32 needs an NVIDIA GPU of compute capability 8.0 or later; there is no GPU"
    per_host = -(-case.devices // case.hosts)
    if machine.gpus:
        return f"{per_host} devices a host, and there are {machine.gpus} GPUs" if per_host > machine.gpus else None
    placing: type[Launcher] = registry.load("launchers", launcher)
    cores = placing.cores_of_a_host(case, machine.cores)
    if machine.kind != "tpu" and per_host * machine.cores_per_device > cores:
        each = "a core" if machine.cores_per_device == 1 else f"{machine.cores_per_device} cores"
        return f"{per_host} CPU devices a host need {each} each, and there are {cores}"
    return None


def _transport(case: Case, machine: Machine) -> str | None:
    if case.collective == "nccl" and not machine.gpus:
        return "nccl needs GPUs; TensorFlow would run something else on CPUs under that name"
    if case.transport in ("rdma", "gdr"):
        if case.collective == "ring":
            return f"ring over {case.transport}: TensorFlow has no verbs transport any more, only NCCL uses RDMA"
        if not machine.gpus:
            return f"{case.transport} needs GPUs: only NCCL uses RDMA"
    return None


def _exchange(case: Case, strategy: Strategy) -> str | None:
    if parse(case.exchange).name == "none":
        return None
    if case.devices == 1:
        return f"exchange {case.exchange} with one replica: nothing is exchanged"
    if not strategy.exchanges:
        return f"exchange {case.exchange}: {case.strategy} has no gradient exchange to replace"
    return exchanges.create(case.exchange).refuses(case)


def _hosts(case: Case, launcher: str) -> str | None:
    placing: type[Launcher] = registry.load("launchers", launcher)
    if (reason := placing.refuses(case)) is not None:
        return reason
    if case.topology is not None and case.hosts > len(case.topology.hosts):
        return f"{case.hosts} hosts, and the topology {case.topology.name} has {len(case.topology.hosts)}"
    if case.order == "topology" and (case.topology is None or len(set(case.topology.hosts)) == 1):
        return "order topology needs a topology with several racks"
    if case.hosts > case.devices:
        return f"{case.hosts} hosts for {case.devices} devices leave hosts without one"
    return None


def device_hours(cases: Sequence[Case], measure: Measure) -> float:
    """Device-hours at most: devices x trials x (timed budget + a launch), over all cases."""
    trials = measure.max_trials or measure.trials
    return sum(case.devices * trials * (measure.budget_s + LAUNCH_S) for case in cases) / 3600
