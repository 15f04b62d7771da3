"""What changed between two environments, what is likely to matter for speed first. Pure."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from tfscale.suite.record import Strict

MIDDLE = 50
"""Weight of a path that no pattern knows: neither first nor lost among what always changes."""
_UNTOLD = 3
_MISSING = object()

WEIGHTS: tuple[tuple[str, int, str], ...] = (
    ("gpus.*.name", 100, "another accelerator"),
    ("gpus", 100, "GPUs on one side only"),
    ("gpus.*.memory_bytes", 96, "another model of the accelerator"),
    ("cpu.model", 95, "another processor"),
    ("cpu.instructions", 94, "other instruction sets: other kernels of oneDNN"),
    ("system.model", 92, "another machine or instance type"),
    ("cpu.usable", 92, "another number of cores to run on"),
    ("cpu.cores", 91, "another number of cores"),
    ("cpu.sockets", 91, "another number of sockets"),
    ("cgroup.cpus", 90, "the container may use another share of the processor"),
    ("gpus.*.link.*", 88, "the card's PCIe link runs at another speed or width"),
    ("rdma.*.rate", 88, "the fabric's link runs at another rate"),
    ("rdma.*", 84, "another RDMA device, or another state of it"),
    ("topology.*", 84, "GPUs and NICs reach each other another way"),
    ("driver.*", 86, "another GPU driver"),
    ("packages.tensorflow*", 86, "another TensorFlow"),
    ("packages.libtpu*", 85, "another TPU compiler and runtime"),
    ("libraries.*", 84, "another CUDA, cuDNN or NCCL"),
    ("packages.nvidia-ml-py", 20, "only reads counters"),
    ("packages.nvidia-*", 83, "another CUDA library"),
    ("tensorflow_build.*", 82, "TensorFlow was built otherwise"),
    ("nics.*.speed_mbit", 82, "the network's link has another speed"),
    ("packages.keras*", 80, "another Keras"),
    ("cpu.governor", 79, "clocks are chosen by another policy"),
    ("cpu.turbo", 79, "clocks above nominal are allowed on one side only"),
    ("variables.NCCL_*", 78, "NCCL was told otherwise"),
    ("nccl_configuration.*", 78, "NCCL was told otherwise"),
    ("variables.XLA_*", 78, "XLA was told otherwise"),
    ("variables.TF_*", 76, "TensorFlow was told otherwise"),
    ("variables.CUDA_VISIBLE_DEVICES", 62, "other cards were handed to the process"),
    ("variables.*", 74, "a library was told otherwise"),
    ("cpu.energy_preference", 74, "the processor prefers another balance of speed and energy"),
    ("cpu.smt", 73, "hardware threads are on, on one side only"),
    ("memory_bytes", 72, "another size of memory"),
    ("cgroup.*", 72, "the container has another limit"),
    ("numa.*", 70, "memory is laid out otherwise"),
    ("nics.*.mtu", 70, "packets of another size"),
    ("tfscale.*", 68, "another tfscale measured"),
    ("cpu.caches", 66, "other caches"),
    ("settings.transparent_hugepage", 66, "large pages are handed out by another rule"),
    ("settings.boot_options", 66, "the kernel was started with other options"),
    ("limits.memlock_bytes", 64, "RDMA has to lock memory"),
    ("directory.git", 62, "your own code may have changed"),
    ("container.*", 56, "another container, or none"),
    ("kernel", 58, "another kernel"),
    ("cpu.microcode", 57, "another microcode"),
    ("system.firmware", 55, "another firmware"),
    ("packages.*", 40, "another version of a library"),
    ("python", 40, "another Python"),
    ("os", 35, "another system"),
    ("limits.*", 34, "another resource limit"),
    ("gpus.*.pci*", 25, "the card sits in another slot"),
    ("host", 30, "another host"),
    ("scheduler.variables.*_JOB_*ID", 2, "differs with every job"),
    ("scheduler.variables.*JOBID", 2, "differs with every job"),
    ("scheduler.variables.*_PROCID", 2, "differs with every process"),
    ("scheduler.variables.*", 45, "placed otherwise by the scheduler"),
    ("load_average", 4, "differs from minute to minute; who else was running is checked by itself"),
)
"""(pattern of the path, weight, why it may matter); the first that fits counts. Weights are our judgement."""


class Change(Strict):
    """One thing that differs."""

    path: str
    """`cpu.governor`; a `*` stands for several members of a list that changed alike."""
    before: Any
    after: Any
    known: Literal["both", "before", "after"]
    """Which side tells. Only before, or only after: the other did not read it, so nothing need have changed."""
    weight: int
    """How likely it is to matter for speed, 0 to 100."""
    why: str


class Diff(Strict):
    """The answer of `tfscale diff`."""

    schema_: Annotated[Literal["tfscale.environment_diff/1"], Field(alias="schema")] = "tfscale.environment_diff/1"
    before: str
    after: str
    changes: tuple[Change, ...]

    model_config = ConfigDict(populate_by_name=True)


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Everything in which two environments differ, the heaviest first, then by path."""
    first, second = flatten(before), flatten(after)
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for path in sorted(first.keys() | second.keys()):
        one, other = first.get(path, _MISSING), second.get(path, _MISSING)
        if one != other:
            grouped.setdefault((_generic(path), repr(one), repr(other)), []).append(path)
    changes = []
    for (generic, _, _), paths in grouped.items():
        one, other = first.get(paths[0], _MISSING), second.get(paths[0], _MISSING)
        path = paths[0] if len(paths) == 1 else generic
        changes.append(_change(path, one, other, (before, after)))
    return sorted(changes, key=lambda change: (-change.weight, change.path))


def _change(path: str, one: Any, other: Any, sides: tuple[Mapping[str, Any], Mapping[str, Any]]) -> Change:
    weight, why = importance(path)
    told = [_told(path, value, side) for value, side in zip((one, other), sides, strict=True)]
    known: Literal["both", "before", "after"] = "both" if all(told) else "before" if told[0] else "after"
    if known != "both":
        weight, why = min(weight, _UNTOLD), f"only the environment {known} tells it"
    values = [None if value is _MISSING else value for value in (one, other)]
    return Change(path=path, before=values[0], after=values[1], known=known, weight=weight, why=why)


def _told(path: str, value: Any, side: Mapping[str, Any]) -> bool:
    """Whether a side tells `path`: a variable that is not set is told; a null, or a part never captured, is not."""
    if value is None:
        return False
    return value is not _MISSING or side.get(path.partition(".")[0]) is not None


def importance(path: str) -> tuple[int, str]:
    """Weight of a path and why it may matter."""
    for pattern, weight, why in WEIGHTS:
        if fnmatchcase(path, pattern):
            return weight, why
    return MIDDLE, "not known to matter, nor not to"


def flatten(environment: Mapping[str, Any]) -> dict[str, Any]:
    """`{"cpu": {"model": ...}}` as `{"cpu.model": ...}`; members of a list by their name or number; reasons left out."""
    flat: dict[str, Any] = {}
    _into(flat, "", environment)
    return flat


def _into(flat: dict[str, Any], prefix: str, value: Any) -> None:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            if not str(name).endswith("_reason"):
                _into(flat, f"{prefix}.{name}" if prefix else str(name), inner)
    elif isinstance(value, list) and value and all(isinstance(member, Mapping) for member in value):
        for number, member in enumerate(value):
            _into(flat, f"{prefix}.{_label(member, number)}", member)
    elif value not in ({}, []) or not prefix:
        flat[prefix] = value


def _label(member: Mapping[str, Any], number: int) -> str:
    return str(next((member[key] for key in ("index", "node", "port", "name") if key in member), number))


def _generic(path: str) -> str:
    """The path with a `*` for the member of a list, so that eight cards which changed alike are one line."""
    parts = path.split(".")
    if parts[0] in ("gpus", "nics", "rdma", "numa") and len(parts) > 2:
        parts[1] = "*"
    return ".".join(parts)
