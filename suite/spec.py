"""What to run: a suite (the YAML file) and its cases (the points of the matrix).

Everything here is data; expansion is in matrix.py, pruning in pruning.py, reading YAML in suitefile.py.
"""

import hashlib
import json
import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from tfscale.suite.cluster import Cluster
from tfscale.suite.document import Document
from tfscale.suite.topology import Order, Topology

Precision = Literal["float32", "tf32", "mixed_bfloat16", "mixed_float16"]
Xla = Literal["none", "cluster", "auto"]
Collective = Literal["auto", "ring", "nccl"]
Transport = Literal["auto", "tcp", "rdma", "gdr"]
ScalingMode = Literal["weak", "strong", "accumulated"]

ENV_ALLOWED_PREFIXES = (
    "NCCL_",
    "TF_",
    "XLA_",
    "OMP_",
    "KMP_",
    "MKL_",
    "ONEDNN_",
    "DNNL_",
    "CUDA_",
    "UCX_",
    "GRPC_",
    "MALLOC_",
)
ENV_READ_AT_IMPORT = ("TF_", "XLA_", "OMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_", "CUDA_", "MALLOC_")
"""Variables with these prefixes may be read when TensorFlow is imported: such a case gets fresh interpreters."""


_FOREIGN = ("TF_CONFIG", "TF_VAR_", "TF_TOKEN_", "TF_CLI_", "TF_WORKSPACE", "TF_DATA_DIR")
"""Terraform has the same prefix; TF_CONFIG is planned, never taken over."""
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API|(^|_)KEY(_|$)", re.IGNORECASE)


def recordable(name: str) -> bool:
    """Whether a variable may be set by a suite and may stand in a record: ours to know, and no secret by its name."""
    known = name.startswith(ENV_ALLOWED_PREFIXES) and not name.startswith(_FOREIGN)
    return known and not _SECRET.search(name) and bool(re.fullmatch(r"[A-Z][A-Z0-9_]*", name))


def checked_variables(env: dict[str, str]) -> dict[str, str]:
    """`env` as it is. Raises ValueError where a suite may not set one of these variables."""
    for name, value in env.items():
        if not recordable(name):
            allowed = ", ".join(prefix + "*" for prefix in ENV_ALLOWED_PREFIXES)
            raise ValueError(
                f"variable {name!r} may not be set by a suite (allowed: {allowed}; no TF_CONFIG, no secret)"
            )
        if "\0" in value:
            raise ValueError(f"variable {name!r} has a value with a NUL character")
    return env


class Input(Document):
    """Where batches come from. A bare word in YAML (`input: files`) means `{kind: that word}`."""

    kind: Literal["synthetic", "files"] = "synthetic"
    index: Literal["uniform", "zipf"] = "uniform"
    """Distribution of embedding indices in synthetic recommender batches."""
    path: str | None = None
    """Folder made by `tfscale data make`; without one, files input uses a seeded sample that the run writes itself."""
    cache: Literal["none", "memory"] = "none"
    page_cache: Literal["warm", "cold"] = "warm"
    prefetch: int = Field(default=-1, ge=-1)
    """Batches prefetched; -1 lets tf.data tune it, 0 is none."""
    parallel: int = Field(default=-1, ge=-1)
    """Parallel calls of interleave and map; -1 lets tf.data tune it."""

    @model_validator(mode="after")
    def _only_keys_of_its_kind(self) -> Self:
        # A setting without effect would give the same work a second id.
        others = _INPUT_KEYS["files" if self.kind == "synthetic" else "synthetic"]
        fields = type(self).model_fields
        idle = [key for key in others if getattr(self, key) != fields[key].default]
        if idle:
            known = ", ".join(_INPUT_KEYS[self.kind])
            raise ValueError(f"{', '.join(idle)} means nothing for {self.kind} input (its keys: {known})")
        return self


_INPUT_KEYS = {"synthetic": ("index",), "files": ("path", "cache", "page_cache", "prefetch", "parallel")}


class Case(Document):
    """One point of the matrix: everything that changes the work a step does."""

    workload: str
    preset: str
    strategy: str = "one_device"
    devices: int = Field(default=1, ge=1)
    hosts: int = Field(default=1, ge=1)
    ranks: Literal["host", "device"] = "device"
    per_replica_batch: Annotated[int, Field(ge=1)] | Literal["auto"] | None = None
    """auto: chosen by a pilot launch, so that exposed communication is no more than `measure.exposed_share` of a step."""
    global_batch: int | None = Field(default=None, ge=1)
    precision: Precision = "float32"
    xla: Xla = "none"
    collective: Collective = "auto"
    transport: Transport = "auto"
    exchange: str = "none"
    topology: Topology | None = None
    """The network that ranks are put on, or which of their hosts are neighbours; None: not told."""
    order: Order = "listed"
    """Order of hosts in the job: as the topology or the scheduler lists them, or neighbours together."""
    accumulation: Annotated[int, Field(ge=1)] | Literal["auto"] = 1
    recompute: bool = False
    steps_per_call: int = Field(default=1, ge=1)
    input: Input = Input()
    env: dict[str, str] = Field(default_factory=dict)
    learning_rate_rule: Literal["none", "linear", "sqrt"] = "none"
    seed: int = Field(default=0, ge=0)

    @field_validator("input", mode="before")
    @classmethod
    def _input_as_a_word(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _as_many_hosts_as_described(cls, data: Any) -> Any:
        # A case on a described network uses all its hosts, as far as it has devices for them.
        if not isinstance(data, dict) or data.get("topology") is None or "hosts" in data:
            return data
        described, devices = Topology.model_validate(data["topology"]), data.get("devices", 1)
        hosts = min(len(described.hosts), devices) if isinstance(devices, int) else len(described.hosts)
        return {**data, "topology": described, "hosts": max(1, hosts)}

    @field_validator("env")
    @classmethod
    def _only_allowed_variables(cls, env: dict[str, str]) -> dict[str, str]:
        return checked_variables(env)

    @model_validator(mode="after")
    def _one_batch_is_named(self) -> Self:
        if self.per_replica_batch is None and self.global_batch is None:
            raise ValueError("name per_replica_batch (weak scaling) or global_batch (strong scaling)")
        if self.undecided and (self.global_batch is not None or len(self.undecided) > 1):
            raise ValueError(
                f"{self.undecided[0]}: auto goes with a number for the other of per_replica_batch and accumulation, "
                "and without global_batch: one number is chosen, for weak scaling"
            )
        if self.global_batch is not None:
            assert isinstance(self.accumulation, int) and self.per_replica_batch != "auto"
            parts = self.devices * self.accumulation * (self.per_replica_batch or 1)
            if self.global_batch % parts or (self.per_replica_batch and self.global_batch != parts):
                raise ValueError(
                    f"global_batch {self.global_batch} is not per-replica batch x devices x accumulation "
                    f"(devices {self.devices}, accumulation {self.accumulation}"
                    + (f", per_replica_batch {self.per_replica_batch})" if self.per_replica_batch else ")")
                )
        return self

    @property
    def scaling(self) -> ScalingMode:
        """weak: per-replica batch fixed; strong: global batch fixed; accumulated: the same by accumulation."""
        if self.global_batch is None:
            return "weak"
        return "accumulated" if self.per_replica_batch is not None else "strong"

    @property
    def micro_batch(self) -> int:
        """Samples that one replica takes in one forward and backward pass."""
        if self.per_replica_batch is not None:
            return self._number("per_replica_batch")
        assert self.global_batch is not None
        return self.global_batch // (self.devices * self.micro_batches)

    @property
    def micro_batches(self) -> int:
        """Forward and backward passes of one replica in one optimiser step."""
        return self._number("accumulation")

    def _number(self, axis: str) -> int:
        value = getattr(self, axis)
        if not isinstance(value, int):
            raise ValueError(f"{axis} of {self.title} is {value!r}: no pilot launch has decided it yet")
        return value

    @property
    def undecided(self) -> tuple[str, ...]:
        """Axes that a pilot launch is to decide."""
        return tuple(axis for axis in ("per_replica_batch", "accumulation") if getattr(self, axis) == "auto")

    def with_values(self, **values: Any) -> Self:
        """The same case with other values, checked like any."""
        return type(self).model_validate({**self.model_dump(), **values})

    @property
    def step_batch(self) -> int:
        """Planned samples of one optimiser step over all replicas."""
        return self.micro_batch * self.devices * self.micro_batches

    def axes(self) -> dict[str, Any]:
        """The axes whose value is not the default, as plain JSON data: what identifies the case."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @property
    def id(self) -> str:
        """Stable id: the same work has the same id, also after a later version adds axes. What a link is called is no work."""
        axes = self.axes()
        if self.topology is not None:
            axes["topology"].pop("name", None)
        text = json.dumps(axes, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def title(self) -> str:
        """Short name for people: the axes at their defaults left out."""
        axes = self.axes()
        head = [self.workload, self.preset, self.strategy, f"x{self.devices}"]
        rest = {k: v for k, v in axes.items() if k not in ("workload", "preset", "strategy", "devices")}
        return " ".join(head + [f"{k}={_short(v)}" for k, v in rest.items()])


def _short(value: Any) -> str:
    if isinstance(value, dict) and value.get("name"):
        return str(value["name"])
    return ",".join(f"{k}:{v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


class Measure(Document):
    """How long and how often a case is measured, and how long each phase may take (seconds)."""

    target: float = Field(default=0.01, gt=0, lt=1)
    """Wanted half-width of the 95 % interval of a case, relative."""
    budget_s: float = Field(default=60.0, gt=0)
    """Timed seconds of one trial at most."""
    min_s: float = Field(default=5.0, ge=0)
    trials: int = Field(default=3, ge=1)
    max_trials: int | None = Field(default=None, ge=1)
    """Trials at most while the target is missed; default: `trials`."""
    steps: int | None = Field(default=None, ge=3)
    """Run exactly this many steps instead of the stopping rule (no interval is claimed), in whole calls and three at
    least: the first call is not timed, nor is the last, behind which nothing is queued."""
    tail_steps: int = Field(default=100, ge=0)
    """Steps of the separate pass with a time stamp each, for p95, p99 and maximum; 0 leaves it out."""
    launch_s: float = Field(default=60.0, gt=0)
    join_s: float = Field(default=60.0, gt=0)
    first_step_s: float = Field(default=300.0, gt=0)
    step_s: float | None = Field(default=None, gt=0)
    """Deadline of a steady step; default max(30 s, 20 medians)."""
    ptx_s: float = Field(default=2400.0, gt=0)
    """Deadline of joining and of the first step where TensorFlow says that it compiles its kernels for this GPU first."""
    retries: int = Field(default=1, ge=0, le=10)
    """Launches more of a trial that failed for what the machines did; each is kept on the record."""
    dropout: float | None = Field(default=None, ge=0, lt=1)
    exposed_share: float = Field(default=0.1, gt=0, lt=1)
    """Communication that `accumulation: auto` and `per_replica_batch: auto` leave exposed at most, of a step."""

    @model_validator(mode="after")
    def _max_trials_is_no_less(self) -> Self:
        if self.max_trials is not None and self.max_trials < self.trials:
            raise ValueError(f"max_trials {self.max_trials} is less than trials {self.trials}")
        return self


class Profile(Document):
    """The profiled pass: a launch of its own, a few steps after the steady state."""

    steps: int = Field(default=10, ge=1, le=1000)
    warm_up_steps: int = Field(default=10, ge=1)
    retries: int = Field(default=3, ge=0)
    only: dict[str, Any] = Field(default_factory=dict)
    """Profile only the first case of each distinct workload that has these axis values; empty: every case."""


class TargetLoss(Document):
    """Steps that each exchange needs to a loss that `none` reaches: launches of their own, on an unshaped link."""

    steps: int = Field(default=300, ge=1)
    """The target is the smoothed loss of `none` after so many steps, for each seed its own."""
    limit: int = Field(default=900, ge=1)
    """Steps after which an exchange that has not come to the target is given up."""
    seeds: int = Field(default=5, ge=1)
    """Trainings of each exchange; they differ in weights, dropout and the order of the data."""
    smoothing: int = Field(default=20, ge=1)
    """Steps that are averaged: this one and those before it."""

    @model_validator(mode="after")
    def _lengths_fit(self) -> Self:
        if self.limit < self.steps:
            raise ValueError(
                f"limit: {self.limit} steps are fewer than the {self.steps} that the target is taken after"
            )
        if self.smoothing > self.steps:
            raise ValueError(f"smoothing: {self.smoothing} steps cannot be averaged within the first {self.steps}")
        return self


FaultKind = Literal["kill", "freeze", "cut"]


class Recovery(Document):
    """What a failure costs: trainings with checkpoints, in launches of their own, one of whose ranks fails."""

    fault: FaultKind = "kill"
    """kill: a rank's process ends at once; freeze: it stops and says nothing; cut: its host's link carries nothing."""
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(default=(0,), min_length=1)
    """One failure each: the seed draws the rank and the moment."""
    steps: int = Field(default=60, ge=4)
    """Steps of each training."""
    period_steps: int = Field(default=10, ge=1)
    """Steps between two checkpoints."""
    keep: int = Field(default=2, ge=2)
    """Checkpoints kept; one is too few: while it is written anew there would be none."""
    directory: str | None = None
    """Where ranks save; each host must see its own again. Default: in the run's folder."""
    mtbf_h: tuple[Annotated[float, Field(gt=0)], ...] = (1.0, 24.0, 168.0)
    """Mean times between failures of the whole job, hours, for which the cheapest period is told."""
    tolerance: float | None = Field(default=None, ge=0)
    """Relative difference of losses allowed after a recovery; default: 0 on CPUs, 0.001 elsewhere."""
    save_s: float = Field(default=60.0, gt=0)
    """Seconds that ranks get to save when the job is about to be preempted."""

    @model_validator(mode="after")
    def _a_checkpoint_comes_before_the_end(self) -> Self:
        if self.period_steps >= self.steps:
            raise ValueError(f"period_steps: {self.period_steps} is no less than the {self.steps} steps of a training")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds: {list(self.seeds)} names one twice")
        return self


MONITORS = ("host", "network", "rdma", "nvml")
"""What is sampled beside every trial unless a suite says otherwise; each finds out what is there."""


class Suite(Document):
    """A suite file after reading: settings and its cases, expanded and not yet pruned."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)
    description: str = ""
    cases: tuple[Case, ...]
    measure: Measure = Measure()
    profile: Profile | None = None
    target_loss: TargetLoss | None = None
    recovery: Recovery | None = None
    monitors: tuple[str, ...] = MONITORS
    """Names of monitors; empty for none."""
    cluster: Cluster = Cluster()
