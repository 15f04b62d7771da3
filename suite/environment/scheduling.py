"""Who placed this process: the scheduler of the cluster, and the container around it."""

import re
from collections.abc import Mapping
from typing import Any

from tfscale.suite.environment.reading import text
from tfscale.suite.sources.base import Source

_SLURM = ("JOB_ID", "JOB_NAME", "JOB_PARTITION", "JOB_NODELIST", "JOB_NUM_NODES", "JOB_QOS", "CLUSTER_NAME", "NNODES",
          "NODEID", "NTASKS", "NTASKS_PER_NODE", "PROCID", "LOCALID", "CPUS_PER_TASK", "CPUS_ON_NODE", "MEM_PER_NODE",
          "MEM_PER_CPU", "GPUS", "GPUS_ON_NODE", "GPUS_PER_TASK", "GPUS_PER_NODE", "GPU_BIND", "CPU_BIND",
          "DISTRIBUTION", "THREADS_PER_CORE", "ARRAY_JOB_ID", "ARRAY_TASK_ID")  # fmt: skip
VARIABLES: dict[str, tuple[str, ...]] = {
    "slurm": tuple(f"SLURM_{name}" for name in _SLURM),
    "lsf": (
        "LSB_JOBID",
        "LSB_JOBNAME",
        "LSB_QUEUE",
        "LSB_HOSTS",
        "LSB_MCPU_HOSTS",
        "LSB_DJOB_NUMPROC",
        "LSB_BIND_CPU_LIST",
    ),
    "pbs": ("PBS_JOBID", "PBS_JOBNAME", "PBS_QUEUE", "PBS_NUM_NODES", "PBS_NUM_PPN", "PBS_NP"),
}
"""Scheduler -> the variables of a job that may stand in a record, the first of which tells that there is one.

By name, not by prefix: SLURM_ and PBS_ variables also carry tokens (SLURM_JWT), comments and command lines.
"""
CONTAINER_VARIABLES = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "KUBERNETES_SERVICE_HOST", "container")
_NAMESPACE = "var/run/secrets/kubernetes.io/serviceaccount/namespace"
_RUNTIMES = re.compile(r"(docker|containerd|crio|libpod|lxc)")


def scheduler_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """What may be recorded of the scheduler's variables."""
    allowed = [name for names in VARIABLES.values() for name in names]
    return {name: environ[name] for name in allowed if name in environ}


def scheduler(files: Source, variables: Mapping[str, str]) -> dict[str, Any]:
    """`kind` (slurm, lsf, pbs, kubernetes or none) and its allow-listed variables."""
    for kind, names in VARIABLES.items():
        if names[0] in variables:
            return {"kind": kind, "variables": {name: variables[name] for name in names if name in variables}}
    if "KUBERNETES_SERVICE_HOST" in variables:
        return {"kind": "kubernetes", "namespace": text(files, _NAMESPACE)}
    return {"kind": "none"}


def container(files: Source, variables: Mapping[str, str]) -> dict[str, str]:
    """`kind` (apptainer, podman, docker, kubernetes, a runtime's name, none) and what told it, `evidence`."""
    for name in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"):
        if name in variables:
            return {"kind": "apptainer", "evidence": name}
    if files.ask(".singularity.d").ok:
        return {"kind": "apptainer", "evidence": "/.singularity.d"}
    if "KUBERNETES_SERVICE_HOST" in variables:
        return {"kind": "kubernetes", "evidence": "KUBERNETES_SERVICE_HOST"}
    for kind, marker in (("podman", "run/.containerenv"), ("docker", ".dockerenv")):
        if files.ask(marker).state != "absent":
            return {"kind": kind, "evidence": f"/{marker}"}
    paths = text(files, "proc/self/cgroup") or ""
    if "kubepods" in paths:
        return {"kind": "kubernetes", "evidence": "/proc/self/cgroup"}
    runtime = _RUNTIMES.search(paths)
    if runtime:
        return {"kind": runtime[1], "evidence": "/proc/self/cgroup"}
    if "container" in variables:  # systemd-nspawn, podman and LXC set it, systemd's container interface
        return {"kind": variables["container"], "evidence": "the variable `container`"}
    return {"kind": "none", "evidence": "no mark of a container was found"}
