"""What pruning and planning need of this host, kept cheap: cores, GPUs, what `cluster.accelerator` means."""

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from tfscale.suite.cluster import Accelerator, Cluster
from tfscale.suite.environment import cards
from tfscale.suite.sources.nvml import Nvml
from tfscale.suite.strategies.base import Machine


def host_cores() -> list[int]:
    """The cores that this process may use, in order."""
    return sorted(os.sched_getaffinity(0))


def gpus() -> list[dict[str, Any]] | None:
    """Name and memory of each GPU, by NVML; [] where the driver is not there, None where it does not answer."""
    return cards.named(Nvml())


def visible_gpus() -> list[str]:
    """The CUDA_VISIBLE_DEVICES entries to hand out: those that were set for us, else one number a GPU."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name.strip() for name in given.split(",") if name.strip() not in ("", "-1")]
    return [str(index) for index in range(len(gpus() or []))]


def accelerator(requested: Accelerator) -> Literal["cpu", "gpu", "tpu"]:
    """What `cluster.accelerator` means on this host."""
    if requested != "auto":
        return requested
    return "gpu" if gpus() and not installed("tensorflow-cpu") else "cpu"


def machine(cluster: Cluster) -> Machine:
    """This host as pruning sees it, for the devices that the suite asks for."""
    kind = accelerator(cluster.accelerator)
    tpus = _tpus() if kind == "tpu" else 0
    gpu_count = len(visible_gpus()) if kind == "gpu" else 0
    per_device = cluster.cores_per_device or 1
    return Machine(cores=len(host_cores()), gpus=gpu_count, tpus=tpus, kind=kind, cores_per_device=per_device)


def _tpus() -> int | None:
    """TPU cores of this host; None where TPU_NAME names others, which only the TPU's own runtime can count."""
    if os.environ.get("TPU_NAME", "local") != "local":
        return None
    return len(list(Path("/dev").glob("accel*")))


def installed(package: str) -> str | None:
    """Version of an installed distribution, None where it is not installed; nothing is imported."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
