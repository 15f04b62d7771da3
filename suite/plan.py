"""The plan of one launch: every rank's place, addresses, cores and deadlines; launchers only place it."""

import json
import math
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tfscale.suite.spec import Case, FaultKind, Measure, Profile
from tfscale.suite.strategies.base import RankLayout, Role

Pass = Literal["timed", "profiled", "pilot", "losses", "recovery"]


class Lengths(BaseModel):
    """How long the pass `losses` trains: `most` steps, fewer where the smoothed loss comes to `until` before."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    most: int
    smoothing: int
    """Steps whose losses are averaged: the last ones."""
    until: float | None = None
    """The smoothed loss to stop at; None: train all steps."""


class Fault(BaseModel):
    """What is to happen to one rank: soon after it has completed `step`, `fraction` of a step later."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    kind: FaultKind
    rank: int
    step: int
    fraction: float


class Stretch(BaseModel):
    """What the pass `recovery` trains: up to step `steps`, saving every `period_steps`, from the start or a checkpoint."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    steps: int
    period_steps: int
    keep: int
    checkpoints: str
    """Folder with one folder a rank, in which that rank finds again what it saved in an earlier launch."""
    resume_step: int | None = None
    """The checkpoint to go on from, which every rank has whole; None: from the start."""
    fault: Fault | None = None


class RankPlan(BaseModel):
    """Everything one rank needs to know, as JSON: it is the only thing that travels to the rank."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    case: Case
    case_id: str
    trial: int
    rank: int
    world: int
    """Processes of the launch."""
    role: Role
    role_index: int
    devices: int
    """Devices (replicas) that this process drives."""
    first_replica: int
    host: int = 0
    """Number of its host within the job."""
    racks: tuple[int, ...] = ()
    """Rack of every replica of the job; empty where no topology tells."""
    network_namespace: str | None = None
    """Name of the network namespace that the process enters before anything else; None: the harness's own."""
    cluster: dict[str, list[str]]
    """Role -> addresses, in TensorFlow's cluster-spec form; empty for a single process."""
    accelerator: Literal["cpu", "gpu", "tpu"]
    cores: list[int]
    """CPU cores this process is pinned to; empty: not pinned."""
    cores_per_device: int
    environment: dict[str, str]
    directory: str
    """This rank's folder."""
    trial_directory: str
    profile_directory: str | None
    data_directory: str | None
    """TFRecord folder for files input."""
    measure: Measure
    profile: Profile | None
    pass_: Pass
    batch_growth: int = 1
    """Chosen per-replica batch / the one that the learning-rate rule takes for its base."""
    lengths: Lengths | None = None
    """Of the pass `losses`."""
    stretch: Stretch | None = None
    """Of the pass `recovery`."""
    checkpoint_directory: str | None = None
    """This rank's folder of checkpoints: its host sees it again in later launches of the same training."""

    @property
    def tf_config(self) -> str | None:
        """TF_CONFIG of this rank, or None for a single process."""
        if not self.cluster:
            return None
        task = {"type": "chief" if self.role == "coordinator" else self.role, "index": self.role_index}
        return json.dumps({"cluster": self.cluster, "task": task})

    @property
    def decides(self) -> bool:
        """Whether this rank fixes the block size and the stop."""
        return self.rank == 0


def cores_of(layouts: list[RankLayout], cores_of_hosts: Sequence[list[int]], cores_per_device: int) -> list[list[int]]:
    """Cores of each rank: consecutive shares of its host's cores, `cores_per_device` a device.

    Parameter servers and coordinators drive no device; they may use every core of their host.
    """
    taken: dict[int, int] = {}
    shares = []
    for layout in layouts:
        host_cores = cores_of_hosts[layout.host]
        if layout.devices == 0 or layout.role != "worker":
            shares.append(host_cores)
            continue
        start = taken.get(layout.host, 0)
        stop = start + layout.devices * cores_per_device
        if stop > len(host_cores):
            raise ValueError(f"host {layout.host} has {len(host_cores)} cores, {stop} are needed")
        shares.append(host_cores[start:stop])
        taken[layout.host] = stop
    return shares


def cores_shared(plans: Sequence[RankPlan]) -> bool:
    """Whether ranks of different hosts have a core in common, as hosts that one machine plays may: all are slower then."""
    owners: dict[int, int] = {}
    return any(owners.setdefault(core, plan.host) != plan.host for plan in plans for core in plan.cores)


def default_cores_per_device(host_cores: int, most_devices_on_a_host: int) -> int:
    """Cores of a CPU device, the same at every device count of a suite."""
    return max(1, math.floor(host_cores / most_devices_on_a_host))
