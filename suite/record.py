"""What came out: quantities that carry their unit and kind, and the versioned JSON documents made of them."""

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

RECORD_SCHEMA: Literal["tfscale.record/1"] = "tfscale.record/1"
CASE_SCHEMA: Literal["tfscale.case/1"] = "tfscale.case/1"
RUN_SCHEMA: Literal["tfscale.run/1"] = "tfscale.run/1"
CURVE_SCHEMA: Literal["tfscale.curve/1"] = "tfscale.curve/1"
RECOVERY_SCHEMA: Literal["tfscale.recovery/1"] = "tfscale.recovery/1"

Kind = Literal["measured", "derived", "simulated", "published"]
Scope = Literal["within_trial", "across_trials"]
Status = Literal["VALID", "SUSPECT", "INVALID"]
CheckStatus = Literal["VALID", "UNKNOWN", "SUSPECT", "INVALID"]
"""UNKNOWN: the check could not be made, which `detail` explains; it leaves the case's own status alone."""
FaultClass = Literal[
    "never_started",
    "join_timeout",
    "first_step_timeout",
    "hung",
    "lost_rank",
    "port_in_use",
    "oom",
    "xla_unsupported",
    "disk_full",
    "error",
]


class Strict(BaseModel):
    """Frozen documents without unknown keys."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", allow_inf_nan=False)


class Quantity(Strict):
    """A number that says what it is. `value` is None only with a `reason`; it is never 0 for unknown."""

    value: float | None
    unit: str
    kind: Kind
    statistic: str
    n_trials: int = 1
    n_samples: int | None = None
    ci95: tuple[float, float] | None = None
    ci_method: str | None = None
    scope: Scope = "within_trial"
    reason: str | None = None

    @model_validator(mode="after")
    def _unknown_has_a_reason(self) -> Self:
        if (self.value is None) != (self.reason is not None):
            raise ValueError("a quantity has either a value or a reason why there is none")
        return self


def unknown(unit: str, kind: Kind, statistic: str, reason: str) -> Quantity:
    """A quantity that could not be had, with the reason."""
    return Quantity(value=None, unit=unit, kind=kind, statistic=statistic, reason=reason)


class Check(Strict):
    """One check of a case's validity: what was asked, the answer, and what it means for the case."""

    name: str
    status: CheckStatus
    detail: str
    """The reason, in one sentence."""
    evidence: dict[str, Any] = {}
    """The numbers and names that the answer rests on."""
    advice: str | None = None
    """What to do about it."""


class Validity(Strict):
    status: Status
    checks: tuple[Check, ...] = ()

    @classmethod
    def of(cls, checks: tuple[Check, ...]) -> "Validity":
        """The worst status among `checks`; VALID where there is none."""
        order: tuple[Status, ...] = ("VALID", "SUSPECT", "INVALID")
        worst = max((order.index(check.status) for check in checks if check.status != "UNKNOWN"), default=0)
        return cls(status=order[worst], checks=checks)


class Level(Strict):
    """One level of the block series: blocks [start, stop) and their mean step time in seconds."""

    start: int
    stop: int
    mean: float


class Steady(Strict):
    """Steady-state class of the block series; the steady window is blocks [start, stop)."""

    model_config = ConfigDict(populate_by_name=True)
    classification: Annotated[Literal["flat", "warm-up", "slowdown", "none"], Field(alias="class")]
    levels: tuple[Level, ...]
    start: int
    stop: int


class Unsampled(Strict):
    """A column that has no values, and why."""

    state: Literal["unsupported", "no_permission", "absent", "error"]
    reason: str


class Monitored(Strict):
    """What one monitor saw over the timed window of a trial. `reason` says why it saw nothing, else it is None."""

    reason: str | None = None
    period_s: float | None = None
    samples: int = 0
    """Samples within the timed window."""
    overruns: int = 0
    """Ticks that were missed because the one before took too long."""
    cost: Quantity | None = None
    """Share of one core that sampling took."""
    summary: dict[str, dict[str, Quantity]] = {}
    """Device ("" for the host) -> quantity: `power_mean`, `power_max`, `tx_bytes_rate`, `energy`, ...."""
    unsampled: dict[str, Unsampled] = {}
    """Column key -> its state."""
    facts: dict[str, Any] = {}
    """What is no series: names of devices, foreign processes."""


class Retry(Strict):
    """An attempt to launch a trial that failed for what the machines did, so that the trial was launched again."""

    classification: Annotated[FaultClass, Field(alias="class")]
    reason: str
    rank: int | None
    log_tail: str = ""

    model_config = ConfigDict(populate_by_name=True)


class Failure(Strict):
    """A case that ended without a result: its class, and the first error of the first rank to fail."""

    case: dict[str, Any]
    case_id: str
    trial: int
    classification: Annotated[FaultClass, Field(alias="class")]
    reason: str
    rank: int | None
    log_tail: str
    stacks: str | None = None
    reproduce: str
    retries: tuple[Retry, ...] = ()
    """Attempts before this one, the oldest first."""

    model_config = ConfigDict(populate_by_name=True)


class Record(Strict):
    """The JSON of one trial of one case."""

    schema_: Annotated[Literal["tfscale.record/1"], Field(alias="schema")] = RECORD_SCHEMA
    id: str
    run: str
    case_id: str
    case: dict[str, Any]
    trial: int
    created: str
    """UTC, ISO 8601."""
    target: float | None = None
    """Half-width of the case's 95 % interval that was asked for, relative; None where the number of steps was fixed."""
    steady: Steady
    quantities: dict[str, Quantity]
    breakdown: dict[str, Any] | None = None
    monitors: dict[str, Monitored] = {}
    """Monitor -> what it saw; empty where none ran."""
    phases: dict[str, Quantity]
    """Seconds of import, join, build, trace, compile, first step, ..., each the largest over ranks."""
    effective: dict[str, Any]
    """Precision, XLA, collective implementation, update, ... as read back; a null stands beside `<name>_reason`."""
    counts: dict[str, int]
    """Steps, samples, retraces, skipped steps, profiler retries, ..."""
    loss: dict[str, Any]
    """first_fifth, last_fifth (mean, standard error), verdict: falling, no_learning, nan_loss or unknown."""
    validity: Validity
    environment: dict[str, Any]
    files: dict[str, str]
    """Name -> path relative to the record's folder."""
    reproduce: str
    retries: tuple[Retry, ...] = ()
    """Attempts to launch this trial that failed before it was measured, the oldest first."""

    model_config = ConfigDict(populate_by_name=True)

    @model_validator(mode="after")
    def _throughput_is_batch_over_step_time(self) -> Self:
        """The invariant of every record: throughput x mean step time == global batch, as counted."""
        named = [self.quantities.get(name) for name in ("throughput", "step_time", "global_batch")]
        if all(quantity is not None and quantity.value is not None for quantity in named):
            throughput, step_time, batch = (quantity.value for quantity in named if quantity and quantity.value)
            if not math.isclose(throughput * step_time, batch, rel_tol=1e-6):
                raise ValueError(f"throughput {throughput} x step time {step_time} is not the global batch {batch}")
        return self


class CaseResult(Strict):
    """The JSON of a case over its trials."""

    schema_: Annotated[Literal["tfscale.case/1"], Field(alias="schema")] = CASE_SCHEMA
    case_id: str
    case: dict[str, Any]
    quantities: dict[str, Quantity]
    trials: tuple[str, ...]
    validity: Validity

    model_config = ConfigDict(populate_by_name=True)


class Curve(Strict):
    """The JSON of one training of the pass `losses`: a case off its network, with one seed, and when it came to the target."""

    schema_: Annotated[Literal["tfscale.curve/1"], Field(alias="schema")] = CURVE_SCHEMA
    id: str
    run: str
    created: str
    case_id: str
    """Of `case`: its seed is in it."""
    case: dict[str, Any]
    seed: int
    stands_for: tuple[str, ...]
    """Ids of the run's cases whose losses these are: they differ in the network, or exchange exactly what `none` does."""
    base: str | None
    """The `case_id` of the training with `none` that gave the target; None where this is it."""
    target: float
    """Smoothed loss of the base after `target_steps` steps."""
    target_steps: int
    smoothing: int
    """Steps whose losses are averaged: this one and those before it."""
    limit: int
    steps: int
    """Steps that were trained; for `parameter_server`, of any worker."""
    reached: int | None
    """Number of the first step whose smoothed loss is at or below the target; None where none is."""
    smoothed: float | None
    """Smoothed loss of the last step; None where it is no number."""
    staleness: Quantity | None = None
    """Updates of other workers between a step's first read and its own update; None for synchronous strategies."""
    files: dict[str, str]
    """`losses` -> path relative to the curve's folder."""

    model_config = ConfigDict(populate_by_name=True)


class Failed(Strict):
    """One planned failure of a training, and how it went on. What could not be had is unknown with its reason."""

    seed: int
    rank: int
    """The rank that was to fail."""
    step: int | None
    """The furthest step that any rank had completed when the job was ended; None where the failure did not come."""
    resumed_step: int | None
    """The checkpoint that training went on from, 0: from the start; None where it did not."""
    noticed_as: FaultClass | None
    """How the watch on the job classed the failure."""
    quantities: dict[str, Quantity]
    """detection_time, restart_time and its parts, steps_lost, time_lost."""
    resumed: bool
    """Whether training went on to its last step."""
    reason: str | None = None
    """Why it did not."""
    largest_difference: float | None = None
    """Of the losses of all steps to those without the failure, relative; None where they cannot be compared."""


class Period(Strict):
    """How often to save at one mean time between failures, seconds."""

    mtbf_s: float
    young: Quantity
    """Seconds of training between two checkpoints, to first order (Young 1974)."""
    daly: Quantity
    """The same to higher order (Daly 2006)."""
    steps: Quantity
    """The whole number of steps that costs least by Daly's complete model."""
    overhead: Quantity
    """What checkpoints and failures add to training with that number of steps, relative."""
    overhead_here: Quantity
    """The same with the period of this training."""


class RecoveryResult(Strict):
    """The JSON of the scenario `recovery` for one case: what its checkpoints and its failures cost."""

    schema_: Annotated[Literal["tfscale.recovery/1"], Field(alias="schema")] = RECOVERY_SCHEMA
    id: str
    run: str
    created: str
    case_id: str
    case: dict[str, Any]
    fault: Literal["kill", "freeze", "cut"]
    steps: int
    period_steps: int
    keep: int
    quantities: dict[str, Quantity]
    """step_time, checkpoint_time, checkpoint_bytes, checkpoint_cost (seconds a step), checkpoint_share of a training
    without a failure; detection_time, restart_time, steps_lost, time_lost over the failures."""
    failures: tuple[Failed, ...]
    periods: tuple[Period, ...]
    validity: Validity
    effective: dict[str, Any]
    """How ranks were started again, and where they saved."""
    files: dict[str, str]
    """`losses` (without a failure) and `losses/<seed>` -> paths relative to the document's folder."""
    reproduce: str

    model_config = ConfigDict(populate_by_name=True)


class Pruned(Strict):
    case: dict[str, Any]
    reason: str


class Run(Strict):
    """The JSON document of a run: `run.json` on disk and the answer of `run --json`."""

    schema_: Annotated[Literal["tfscale.run/1"], Field(alias="schema")] = RUN_SCHEMA
    run: str
    suite: str
    created: str
    cases: tuple[CaseResult, ...]
    records: tuple[Record, ...]
    failed: tuple[Failure, ...]
    pruned: tuple[Pruned, ...]
    missing: tuple[str, ...] = ()
    """Ids of cases that were not run: the run was interrupted, and `--resume` does the rest."""
    environment: dict[str, Any] = {}
    curves: tuple[Curve, ...] = ()
    """Trainings to a target loss, where the suite asks for them."""
    recoveries: tuple[RecoveryResult, ...] = ()
    """What failures cost, where the suite asks for it."""
    ended: Literal["complete", "interrupted", "preempted"] | None = None
    """How the run ended; preempted: it was warned that its machine is about to be taken away, which is no failure.
    None: not told, as by a run that was killed."""

    model_config = ConfigDict(populate_by_name=True)
