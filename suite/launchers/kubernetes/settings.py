"""`cluster.kubernetes` of a suite: what the manifests of its run need to know about a cluster."""

import math
import re
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from tfscale.suite.document import Document
from tfscale.suite.launchers.kubernetes.names import (
    Image,
    Label,
    LabelKey,
    LabelValue,
    Quantity,
    SetName,
    Subdomain,
)

GPU = "nvidia.com/gpu"
TPU = "google.com/tpu"


class Toleration(Document):
    """A taint that host pods stand."""

    key: LabelKey | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.operator == "Exists" and self.value is not None:
            raise ValueError(f"value: {self.value!r} is compared with nothing where operator is Exists; leave it out")
        if self.operator == "Equal" and (self.key is None or self.value is None):
            raise ValueError("operator: Equal needs key and value; write Exists where any value will do")
        return self


class TpuSlice(Document):
    """A TPU slice of Google Kubernetes Engine, whose hosts one process drives.

    Labels and the resource are those of https://cloud.google.com/kubernetes-engine/docs/how-to/tpus.
    """

    accelerator: LabelValue
    """Of the nodes' label cloud.google.com/gke-tpu-accelerator, such as tpu-v6e-slice."""
    topology: str
    """Chips along each axis, as in the nodes' label cloud.google.com/gke-tpu-topology, such as 4x4 or 2x2x4."""
    chips_per_host: int = Field(default=4, ge=1)

    @field_validator("topology")
    @classmethod
    def _axes(cls, value: str) -> str:
        if not re.fullmatch(r"[1-9][0-9]{0,2}x[1-9][0-9]{0,2}(x[1-9][0-9]{0,2})?", value):
            raise ValueError(f"{value!r} is no topology; write 4x4 or 2x2x4, chips along each axis")
        return value

    @model_validator(mode="after")
    def _whole_hosts(self) -> Self:
        if self.chips % self.chips_per_host:
            raise ValueError(
                f"topology: {self.topology} has {self.chips} chips, not whole hosts of {self.chips_per_host}"
            )
        return self

    @property
    def chips(self) -> int:
        return math.prod(int(axis) for axis in self.topology.split("x"))

    @property
    def hosts(self) -> int:
        return self.chips // self.chips_per_host


class Kubernetes(Document):
    """One JobSet: a pod for each host, and one for the harness."""

    image: Image
    """With tfscale and TensorFlow in it, by a tag other than latest or by digest."""
    claim: Subdomain
    """The PersistentVolumeClaim that keeps the results; made by the user, like `secret`."""
    namespace: Label = "default"
    name: SetName | None = None
    """Of the JobSet and its service; default: the suite's name in small letters."""
    secret: Subdomain = "tfscale-token"
    """The Secret whose key `token` the harness and the hosts know each other by."""
    port: int = Field(default=7600, ge=1024, le=65535)
    """Where the harness waits for the agents of the hosts."""
    gpus_per_host: int = Field(default=0, ge=0)
    gpu_resource: LabelKey = GPU
    rdma: dict[LabelKey, Annotated[int, Field(ge=1, strict=True)]] = Field(default={})
    """Resources of an RDMA device plugin and how many of each a host takes; locked memory is allowed where any is."""
    resources: dict[LabelKey, Quantity] = Field(default={})
    """Of a host's container, such as {cpu: 32, memory: 128Gi}; asked for and kept to, so that its cores are its own."""
    harness_resources: dict[LabelKey, Quantity] = Field(default={"cpu": "2", "memory": "4Gi"})
    shared_memory: Quantity = "8Gi"
    """Size of /dev/shm of a host; it counts as the container's memory. NCCL needs it between GPUs of one host."""
    env: dict[str, str] = Field(default={})
    """Variables of every host of the run, of those that a case's `env` may set, such as NCCL_SOCKET_IFNAME."""
    node_selector: dict[LabelKey, LabelValue] = Field(default={})
    tolerations: tuple[Toleration, ...] = ()
    one_pod_per_node: bool = True
    """false puts several hosts on a node, to try things on a small cluster; its numbers are those of no network."""
    image_pull_secrets: tuple[Subdomain, ...] = ()
    labels: dict[LabelKey, LabelValue] = Field(default={})
    """Of the JobSet, such as a queue's."""
    pod_annotations: dict[LabelKey, str] = Field(default={})
    """Of the host pods, such as a second network's."""
    user: int | None = Field(default=None, ge=1)
    """User and group id of all processes, and group of the results' volume; default: the image's."""
    max_restarts: int = Field(default=0, ge=0)
    """Times that everything is started again after a pod was lost; never after the harness has told a result."""
    tpu: TpuSlice | None = None

    @field_validator("env")
    @classmethod
    def _only_allowed_variables(cls, env: dict[str, str]) -> dict[str, str]:
        from tfscale.suite.spec import checked_variables  # which holds these settings

        return checked_variables(env)

    @model_validator(mode="after")
    def _one_kind_of_accelerator(self) -> Self:
        if self.tpu is not None and (self.gpus_per_host or self.rdma):
            raise ValueError("tpu: hosts of a TPU slice have no GPUs and no RDMA; leave out gpus_per_host and rdma")
        counted = {self.gpu_resource: "gpus_per_host", TPU: "tpu", **dict.fromkeys(self.rdma, "rdma")}
        for resource in self.resources:
            if resource in counted:
                raise ValueError(f"resources: {resource} is counted by {counted[resource]}; leave it out here")
        return self
