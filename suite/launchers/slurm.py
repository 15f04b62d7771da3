"""Hosts of a Slurm allocation: an agent on each, started by srun; outside of one, the run is submitted as a job.

Node lists are expanded here, in Slurm's own order. GPUs are what the node shows (CUDA_VISIBLE_DEVICES as Slurm sets it
for the job), handed out rank by rank; never one isolated GPU a task, which keeps NCCL from NVLink.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tfscale.suite.cluster import Cluster, HostEntry
from tfscale.suite.launchers.base import HandedOver, Submitted
from tfscale.suite.launchers.errors import LaunchError
from tfscale.suite.launchers.nodelist import NodeListError, expand
from tfscale.suite.launchers.remote.launcher import RemoteLauncher
from tfscale.suite.launchers.remote.link import Channel, opened

NODES = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
"""A step may have fewer nodes than its job, so it is asked first."""
TOLD = {"SLURM_JOB_ID": "job", "SLURM_ARRAY_JOB_ID": "array_job", "SLURM_ARRAY_TASK_ID": "array_task"}
SCRIPT = Path(__file__).with_name("slurm_job.sh")
SUBMIT_S = 60.0


class SlurmLauncher(RemoteLauncher):
    """One srun a node, in the allocation that the harness runs in."""

    name: ClassVar[str] = "slurm"

    def entries(self) -> list[HostEntry]:
        return [HostEntry(target=node) for node in nodes(os.environ)]

    def open(self, entries: Sequence[HostEntry]) -> list[Channel]:
        return [opened(self.argv(entry)) for entry in entries]

    def argv(self, entry: HostEntry) -> list[str]:
        """The srun command to the agent of a node: beside whatever else runs in the job, with all that the job has there."""
        step = ["--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={entry.target}", "--cpu-bind=none", "--quiet"]
        return ["srun", *step, "--job-name=tfscale-agent", *self.agent_argv()]

    def check_placed(self, entry: HostEntry, facts: dict[str, Any]) -> None:
        node = facts["placed"].get("SLURMD_NODENAME")
        if node != entry.target:
            raise LaunchError(
                f"slurm: the agent for node {entry.target} runs on {node}: rank and address would disagree"
            )

    def effective(self) -> dict[str, Any]:
        told = {f"slurm_{name}": os.environ[key] for key, name in TOLD.items() if key in os.environ}
        return {**super().effective(), **told, "slurm_restarts": int(os.environ.get("SLURM_RESTART_COUNT", "0"))}

    @classmethod
    def hand_over(cls, cluster: Cluster, run: HandedOver) -> Submitted | None:
        """Submit the run where this is no allocation. Raises LaunchError where sbatch refuses."""
        if "SLURM_JOB_ID" in os.environ:
            return None
        run.results.mkdir(parents=True, exist_ok=True)
        argv = submission(cluster, run)
        try:
            told = subprocess.run(argv, capture_output=True, text=True, timeout=SUBMIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LaunchError(f"sbatch: {error}") from error
        if told.returncode:
            raise LaunchError(f"sbatch ended with code {told.returncode}: {told.stderr.strip()}")
        return Submitted("slurm", told.stdout.strip().split(";")[0])


def nodes(environ: Mapping[str, str]) -> list[str]:
    """The nodes of the allocation, in Slurm's order. Raises LaunchError outside of one."""
    name = next((name for name in NODES if environ.get(name)), None)
    if name is None:
        raise LaunchError("launcher slurm is not within an allocation: no SLURM_JOB_NODELIST")
    try:
        return expand(environ[name])
    except NodeListError as error:
        raise LaunchError(f"{name}: {error}") from error


def submission(cluster: Cluster, run: HandedOver) -> list[str]:
    """The sbatch command of a run. Everything is a word of its own: nothing of a suite is ever read by a shell."""
    told = cluster.slurm
    folder = str(run.results).replace("%", "%%")
    options = [
        "--parsable",
        f"--job-name=tfscale-{run.name}",
        f"--nodes={run.most_hosts}",
        "--exclusive",
        f"--signal=B:USR1@{told.signal_s}",
        "--requeue" if told.requeue else "--no-requeue",
        "--open-mode=append",
        f"--output={folder}/slurm-%j.out",
    ]
    named = {name: getattr(told, name) for name in ("partition", "account", "qos", "time", "gres", "constraint")}
    options += [f"--{name}={value}" for name, value in named.items() if value is not None]
    elements = list(run.case_ids) if told.array else []
    if elements:
        options.append(f"--array=0-{len(elements) - 1}")
    requeue = "requeue" if told.requeue else "once"
    script = [str(SCRIPT), requeue, str(run.results), str(len(elements)), *elements]
    chosen = ["--only", run.only] if run.only is not None and not elements else []
    return ["sbatch", *options, *told.options, *script, *run.command, *chosen]
