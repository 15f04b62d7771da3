"""What this machine is, as far as it can be read without TensorFlow: hardware, libraries, settings.

Variables come from an allow-list, so that a secret never reaches a record.
"""

import ctypes
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import psutil

from tfscale.suite.spec import Accelerator, Cluster, recordable
from tfscale.suite.strategies.base import Machine

PACKAGES = (
    "tensorflow", "tensorflow-cpu", "tensorflow-tpu", "keras", "numpy", "protobuf", "scipy", "pandas", "pydantic",
    "duckdb", "nvidia-ml-py", "nvidia-nccl-cu12", "nvidia-cudnn-cu12", "libtpu",
)  # fmt: skip


def host_cores() -> list[int]:
    """The cores that this process may use, in order."""
    return sorted(os.sched_getaffinity(0))


def gpus() -> list[dict[str, Any]] | None:
    """Name and memory of each GPU, by NVML; [] where the driver is not there, None where it does not answer."""
    if not _loads("libnvidia-ml.so.1"):
        return []
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        absent = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
        return [] if error.value in absent else None
    try:
        return [_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


def _loads(library: str) -> bool:
    """Whether the library is there: asked first, because the binding takes longer to import than most commands run."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def visible_gpus() -> list[str]:
    """The CUDA_VISIBLE_DEVICES entries to hand out: those that were set for us, else one number a GPU."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name.strip() for name in given.split(",") if name.strip() not in ("", "-1")]
    return [str(index) for index in range(len(gpus() or []))]


def _gpu(nvml: Any, index: int) -> dict[str, Any]:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    name = nvml.nvmlDeviceGetName(handle)
    return {
        "name": name.decode(errors="replace") if isinstance(name, bytes) else name,
        "memory_bytes": int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
    }


def accelerator(requested: Accelerator) -> Literal["cpu", "gpu", "tpu"]:
    """What `cluster.accelerator` means on this host."""
    if requested != "auto":
        return requested
    return "gpu" if gpus() and not installed("tensorflow-cpu") else "cpu"


def machine(cluster: Cluster) -> Machine:
    """This host as pruning sees it, for the devices that the suite asks for."""
    kind = accelerator(cluster.accelerator)
    tpus = len(list(Path("/dev").glob("accel*"))) if kind == "tpu" else 0
    gpu_count = len(visible_gpus()) if kind == "gpu" else 0
    per_device = cluster.cores_per_device or 1
    return Machine(cores=len(host_cores()), gpus=gpu_count, tpus=tpus, kind=kind, cores_per_device=per_device)


def installed(package: str) -> str | None:
    """Version of an installed distribution, None where it is not installed; nothing is imported."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def capture() -> dict[str, Any]:
    """Everything that a reader needs to know of the host and its software to trust a number."""
    memory = psutil.virtual_memory()
    return {
        "host": platform.node(),
        "cpu": {
            "model": cpu_model(Path("/proc/cpuinfo")),
            "cores": psutil.cpu_count(logical=False),
            "threads": psutil.cpu_count(logical=True),
            "usable": len(host_cores()),
            "governor": _read(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        },
        "memory_bytes": memory.total,
        "gpus": gpus(),
        "kernel": platform.release(),
        "os": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := installed(name))},
        "variables": {name: value for name, value in sorted(os.environ.items()) if recordable(name)},
        "load_average": list(os.getloadavg()),
        "tfscale": {"version": installed("tfscale"), "git": git_state(Path(__file__).resolve().parent.parent)},
    }


def cpu_model(cpuinfo: Path) -> str | None:
    """The CPU's name as the kernel gives it (`model name`; on Arm there is often none)."""
    for line in (_read(cpuinfo) or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or None


def git_state(folder: Path) -> str | None:
    """`git describe --always --dirty` of the checkout, None outside one or without git."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty"], capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
