"""A first suite that fits the machine: what `tfscale init` writes. Pure text from a few facts."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

BATCH = {"bert": 32, "vit": 64, "recommender": 4096}
"""Per-replica batches that a data-centre GPU of 16 GB takes with the presets below (an estimate: never run on one)."""


@dataclass(frozen=True)
class Facts:
    """What the text depends on."""

    cores: int
    gpus: tuple[str, ...] = ()
    """Names of the visible GPUs."""
    bfloat16: bool = False
    """Whether the devices multiply bfloat16 in hardware, as far as their names or flags tell."""
    slurm_nodes: int | None = None
    """Nodes of the Slurm allocation that this shell is in, None outside one."""


def here() -> Facts:
    """The facts of this machine and shell."""
    from tfscale.suite import environment
    from tfscale.suite.analysis import peaks
    from tfscale.suite.environment.cpu import cpu
    from tfscale.suite.sources.files import Files

    gpus = tuple(gpu["name"] for gpu in environment.gpus() or [])
    visible = gpus[: len(environment.visible_gpus())]
    nodes = os.environ.get("SLURM_JOB_NUM_NODES") or os.environ.get("SLURM_NNODES")
    return Facts(
        cores=len(environment.host_cores()),
        gpus=visible if environment.accelerator("auto") == "gpu" else (),
        bfloat16=all(peaks.published(name, "bfloat16") for name in visible)
        if visible
        else bool({"avx512_bf16", "amx_bf16"} & set(cpu(Files())["instructions"])),
        slurm_nodes=int(nodes) if nodes and nodes.isdecimal() else None,
    )


def suite(facts: Facts) -> str:
    """The YAML of a suite that runs in minutes on one CPU machine, and in tens of minutes on GPUs."""
    return "\n".join([*_head(facts), *(_gpu(facts) if facts.gpus else _cpu(facts)), ""])


def _head(facts: Facts) -> Iterator[str]:
    where = f"{len(facts.gpus)} x {facts.gpus[0]}" if facts.gpus else f"{facts.cores} CPU cores"
    yield f"# Written by `tfscale init` for a machine with {where}."
    if facts.slurm_nodes:
        yield f"# This shell is in a Slurm allocation of {facts.slurm_nodes} node(s); the cases below use one, this one."
    yield "# Try it: tfscale run THIS_FILE --dry-run. Every axis may hold more values: see docs/reference/suite-files.md."
    yield f"name: {'gpu' if facts.gpus else 'cpu'}-first"


def devices(most: int) -> list[int]:
    """1, 2, 4, ... and the whole machine."""
    counts = [1]
    while counts[-1] * 2 <= most:
        counts.append(counts[-1] * 2)
    return counts if counts[-1] == most else [*counts, most]


def _cpu(facts: Facts) -> Iterator[str]:
    precisions = ["float32", *(["mixed_bfloat16"] if facts.bfloat16 else [])]
    several = facts.cores > 1
    yield "matrix:"
    yield "  workload: [vit, recommender]"
    yield "  preset: micro"
    yield "  per_replica_batch: {vit: 8, recommender: 256}"
    yield f"  strategy: [one_device{', mirrored, multi_worker_mirrored' if several else ''}]"
    yield f"  devices: {devices(min(facts.cores, 8))}"
    yield f"  precision: [{', '.join(precisions)}]"
    yield from _exclude(devices(min(facts.cores, 8)))
    yield "measure: {target: 0.02, budget_s: 20, trials: 2}"
    yield "profile: {steps: 10, only: {precision: float32}}"


def _gpu(facts: Facts) -> Iterator[str]:
    precisions = ["float32", *(["tf32", "mixed_bfloat16"] if facts.bfloat16 else ["mixed_float16"])]
    several = len(facts.gpus) > 1
    yield "matrix:"
    yield "  workload: [bert, vit]"
    yield "  preset: {bert: base, vit: b_16}"
    yield f"  per_replica_batch: {{bert: {BATCH['bert']}, vit: {BATCH['vit']}}}"
    yield f"  strategy: [one_device{', mirrored' if several else ''}]"
    yield f"  devices: {devices(len(facts.gpus))}"
    yield f"  precision: [{', '.join(precisions)}]"
    yield "  xla: [none, cluster]"
    yield from _exclude(devices(len(facts.gpus)))
    yield "measure: {target: 0.01, budget_s: 60, trials: 3}"
    yield "profile: {steps: 10, only: {xla: none}}"
    yield "cluster: {accelerator: gpu}"


def _exclude(counts: list[int]) -> Iterator[str]:
    """one_device has one device, and the other strategies with one would only repeat it."""
    if len(counts) > 1:
        yield "exclude:"
        yield f"  - {{strategy: one_device, devices: {counts[1:]}}}"
        yield "  - {strategy: [mirrored, multi_worker_mirrored], devices: 1}"
