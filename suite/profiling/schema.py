"""The form of `tfscale.trace/1`: what every document of `tfscale trace --json` keeps to. Exported by `show --schema`."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA: Literal["tfscale.trace/1"] = "tfscale.trace/1"


class Shape(BaseModel):
    """A document only ever grows within a version, so a reader must not stumble over a new key; we do, in tests."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class PartsShape(Shape):
    """Exclusive parts of a span in picoseconds."""

    compute: int
    exposed_communication: int
    exposed_copy: int
    input_wait: int
    host_overhead: int
    idle: int


class TotalsShape(Shape):
    """Times that overlap with parts and with each other, picoseconds."""

    communication: int
    overlapped_communication: int
    copy_: Annotated[int, Field(alias="copy")]
    wait: int


class SpanShape(Shape):
    """A span that begins at `start_ps`."""

    start_ps: int
    span_ps: int
    parts: PartsShape
    totals: TotalsShape


class StepShape(SpanShape):
    """One step."""

    step: int


class DroppedShape(Shape):
    """A step that is left out."""

    step: int
    reason: str


class CopiesShape(Shape):
    """Copies of one name."""

    name: str
    count: int
    bytes: int | None
    busy_ps: int
    bandwidth: float | None


class OperationShape(Shape):
    """One kind of operation over a device's steps."""

    name: str
    kind: str
    count: int
    total_ps: int
    self_ps: int
    share: float
    per_step_ps: float
    shape: str | None


class DeviceShape(Shape):
    """One device."""

    device: str
    platform: Literal["cpu", "gpu", "tpu"]
    step_source: str
    window: SpanShape
    steps: list[StepShape]
    dropped_steps: list[DroppedShape]
    copies: list[CopiesShape]
    operations: list[OperationShape]


class HostShape(Shape):
    """One host."""

    host: str
    files: list[str]
    step_source: str
    devices: list[DeviceShape]


class CollectiveShape(Shape):
    """One collective over the ranks that were seen; bandwidths in bytes per second."""

    type: str
    step: int | None
    bytes: int | None
    members: int | None
    seen: int
    start_ps: int
    duration_ps: int
    duration_from: str
    arrivals_ps: dict[str, int]
    waits_ps: dict[str, int] | None
    waits_bound_ps: int | None
    last: str | None
    algorithm_bandwidth: float | None
    bus_bandwidth: float | None
    reason: str | None


class StragglerShape(Shape):
    """A rank that is late."""

    rank: str
    lateness_ps: float
    share: float
    p: float
    steps: int
    cause: str | None
    causes_ps: dict[str, float] | None


class VerdictShape(Shape):
    """What the straggler test says."""

    answer: Literal["stragglers", "none", "too few steps", "not comparable", "one rank"]
    reason: str


class SkewShape(Shape):
    """How far apart devices begin a step."""

    step: int
    skew_ps: int
    first: str
    last: str


class TraceShape(Shape):
    """A whole document."""

    schema_: Annotated[Literal["tfscale.trace/1"], Field(alias="schema")] = SCHEMA
    kinds: dict[Literal["measured", "derived"], str]
    origin_ns: int | None
    origin_reason: str | None
    hosts: list[HostShape]
    collectives: list[CollectiveShape]
    start_skew: list[SkewShape]
    stragglers: list[StragglerShape]
    straggler_verdict: VerdictShape
    honesty: dict[str, Any]
    against: dict[str, Any] | None = None
    xprof: dict[str, Any] | None = None
