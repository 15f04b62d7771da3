"""The environment of a machine as one document."""

from typing import Any

from tfscale.suite.environment import cards, cpu, interfaces, limits, scheduling, software
from tfscale.suite.environment.process import Process, hushed
from tfscale.suite.environment.reading import text, told
from tfscale.suite.sources.base import Source, Sources
from tfscale.suite.sources.here import here
from tfscale.suite.spec import recordable


def capture(sources: Sources | None = None, process: Process | None = None) -> dict[str, Any]:
    """Everything that a reader needs to know of the host and its software to trust a number.

    Without arguments it is of this machine and process. Takes well under a second without a GPU; `nvidia-smi topo -m`
    is asked only where there is one.
    """
    sources = sources or here()
    process = process or Process.here()
    files = sources.files
    devices = cards.gpus(sources)
    rdma = interfaces.rdma_devices(files)
    release = text(files, "proc/sys/kernel/osrelease")
    return {
        "host": text(files, "proc/sys/kernel/hostname"),
        "system": _system(files),
        "cpu": cpu.cpu(files),
        "memory_bytes": cpu.memory_bytes(files),
        "numa": cpu.numa(files),
        "gpus": devices,
        "topology": cards.topology(sources, devices, rdma),
        "nics": interfaces.interfaces(files),
        "rdma": rdma,
        "driver": software.driver(sources),
        "libraries": software.libraries(process),
        "tensorflow_build": process.tensorflow_build,
        "kernel": release,
        "settings": cpu.kernel_settings(files),
        "os": f"{limits.os_name(files) or 'unknown'} (Linux {release}, {process.machine}, {process.libc})",
        "python": process.python,
        "packages": process.packages,
        "limits": limits.resource_limits(files),
        "cgroup": limits.cgroup(files),
        "scheduler": scheduling.scheduler(files, process.placed),
        "container": scheduling.container(files, process.placed),
        "variables": process.variables,
        "nccl_configuration": _nccl_configuration(files),
        "load_average": limits.load_average(files),
        "tfscale": {
            "version": process.packages.get("tfscale"),
            **told(git=software.git_state(sources, process.tfscale_folder)),
        },
        "directory": told(git=software.directory_state(sources, process.working_directory)),
    }


def _system(files: Source) -> dict[str, Any]:
    """The machine's maker and model (a cloud instance's type, too); no serial numbers."""
    folder = "sys/class/dmi/id"
    return told(
        vendor=files.ask(f"{folder}/sys_vendor"),
        model=files.ask(f"{folder}/product_name"),
        firmware=files.ask(f"{folder}/bios_version"),
    )


def _nccl_configuration(files: Source) -> dict[str, str]:
    """Settings in /etc/nccl.conf, which act like variables: `NCCL_NAME=value` lines, allow-listed as those are."""

    pairs = (line.partition("=") for line in (text(files, "etc/nccl.conf") or "").splitlines())
    return {name.strip(): hushed(value.strip()) for name, _, value in pairs if recordable(name.strip())}
