"""From the launches of the scenario `recovery` to its document: what a checkpoint costs, what a failure costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.analysis import checkpointing
from tfscale.suite.legs import Leg
from tfscale.suite.plan import Fault
from tfscale.suite.planner import rank_folder
from tfscale.suite.rankfiles import LOSSES, read_arrays
from tfscale.suite.record import Check, Failed, Period, Quantity, RecoveryResult, Validity, unknown
from tfscale.suite.runfolder import utc_now
from tfscale.suite.spec import Case, Recovery
from tfscale.suite.timing.statistics import quantity

UNTIMED = 2
"""Calls at the start of a launch whose times are left out: they trace and compile."""
TOLERANCE = 1e-3
"""Relative difference of losses allowed where kernels may add in another order from launch to launch: not on a CPU."""
PARTS = {
    "end_time": ("noticed", "ended", "until no process of the failed job was left"),
    "start_time": ("ended", "started", "until the last rank ran its first line"),
    "import_time": ("started", "imported", "until the last rank had imported TensorFlow"),
    "join_time": ("imported", "joined", "until the last rank had joined"),
    "build_time": ("joined", "traced", "until the last rank had built and traced its step"),
    "resume_time": ("traced", "first_step", "until the last rank had read its checkpoint and taken a step"),
}
"""Of restart_time, one after the other; each from the moment that the one before ends at."""


@dataclass(frozen=True)
class Training:
    """One training of the scenario: its launches, in order, and the failure that was planned for it."""

    folder: Path
    fault: Fault | None
    world: int
    legs: tuple[Leg, ...]

    @property
    def whole(self) -> bool:
        return self.legs[-1].end == "done"

    def arrays(self, rank: int = 0) -> dict[str, NDArray[Any]]:
        """What a rank left of the last launch: `loss` (calls,), `seconds` (calls,), `saved` (saves, 3). Raises OSError."""
        return read_arrays(rank_folder(self.folder / f"launch{self.legs[-1].number}", rank) / LOSSES)

    @property
    def losses(self) -> str:
        """Path of its losses, relative to the case's folder."""
        return f"{self.folder.name}/launch{self.legs[-1].number}/rank0/{LOSSES}"


def result_of(
    case: Case,
    wanted: Recovery,
    reference: Training,
    trainings: Mapping[int, Training],
    *,
    run: str,
    accelerator: str,
    reproduce: str,
) -> RecoveryResult:
    """The document of one case. Raises OSError, ValueError, KeyError where the ranks' files cannot be used."""
    costs = costs_of(reference, wanted.period_steps, case.steps_per_call)
    expected = reference.arrays()["loss"]
    step_s = costs["step_time"].value
    failures = tuple(failed(seed, training, expected, step_s) for seed, training in trainings.items())
    tolerance = wanted.tolerance if wanted.tolerance is not None else 0.0 if accelerator == "cpu" else TOLERANCE
    over = {name: _median([f.quantities[name] for f in failures]) for name in failures[0].quantities}
    return RecoveryResult(
        id=f"{run}/recovery/{case.id}",
        run=run,
        created=utc_now(),
        case_id=case.id,
        case=case.model_dump(mode="json"),
        fault=wanted.fault,
        steps=wanted.steps,
        period_steps=wanted.period_steps,
        keep=wanted.keep,
        quantities={**costs, **over},
        failures=failures,
        periods=tuple(period(3600 * hours, costs, over, wanted.period_steps) for hours in wanted.mtbf_h),
        validity=Validity.of((came_back(failures), same_losses(failures, tolerance))),
        effective={
            "start": reference.legs[-1].start,
            "directory": wanted.directory,
            "dropout": "0 unless measure says",
        },
        files={
            "losses": reference.losses,
            **{f"losses/{seed}": training.losses for seed, training in trainings.items() if training.whole},
        },
        reproduce=reproduce,
    )


def costs_of(reference: Training, period_steps: int, calls: int) -> dict[str, Quantity]:
    """What the training without a failure tells. Every rank waits for the slowest to save, so a save takes as long."""
    ranks = [reference.arrays(rank) for rank in range(reference.world)]
    seconds = ranks[0]["seconds"][UNTIMED:] / calls
    if not seconds.size:
        raise ValueError(f"{ranks[0]['seconds'].size} calls are too few to time one")
    step = quantity(
        float(np.median(seconds)), "s", "median of calls that were fetched one by one", n_samples=seconds.size
    )
    saves = {len(rank["saved"]) for rank in ranks}
    if saves == {0}:  # stopped and gone on with after the last of them
        reason = "this launch of the training saved nothing"
        return {
            "step_time": step,
            "checkpoint_time": unknown("s", "measured", "mean over checkpoints", reason),
            "checkpoint_bytes": unknown("bytes", "measured", "mean over checkpoints, all ranks", reason),
            "checkpoint_cost": unknown("s", "derived", "checkpoint_time / period_steps", reason),
            "checkpoint_share": unknown("1", "derived", "checkpoint_cost / step_time", reason),
        }
    if len(saves) > 1:
        raise ValueError(f"ranks saved {sorted(saves)} times")
    slowest = np.max([rank["saved"][:, 1] for rank in ranks], axis=0)
    size = np.sum([rank["saved"][:, 2] for rank in ranks], axis=0)
    each, n = float(slowest.mean()), slowest.size
    return {
        "step_time": step,
        "checkpoint_time": quantity(each, "s", "mean over checkpoints of the slowest rank's", n_samples=n),
        "checkpoint_bytes": quantity(float(size.mean()), "bytes", "mean over checkpoints, all ranks", n_samples=n),
        "checkpoint_cost": quantity(each / period_steps, "s", "checkpoint_time / period_steps", kind="derived"),
        "checkpoint_share": quantity(
            each / period_steps / float(np.median(seconds)), "1", "checkpoint_cost / step_time", kind="derived"
        ),
    }


def failed(seed: int, training: Training, expected: NDArray[np.float64], step_s: float | None) -> Failed:
    """What one planned failure came to."""
    assert training.fault is not None, "only the reference has none"
    number = next((n for n, leg in enumerate(training.legs) if leg.struck_s is not None), None)
    struck = training.legs[number] if number is not None else None
    after = training.legs[number + 1] if number is not None and number + 1 < len(training.legs) else None
    reason = None if training.whole and struck else why_not(training, struck)
    resumed = after.resume_step or 0 if after is not None else None
    difference = largest_difference(training.arrays()["loss"], expected) if training.whole else None
    return Failed(
        seed=seed,
        rank=training.fault.rank,
        step=struck.reached_step or 0 if struck else None,
        resumed_step=resumed,
        noticed_as=struck.classification if struck else None,
        quantities=times_of(struck, after, resumed, step_s),
        resumed=reason is None,
        reason=reason,
        largest_difference=difference,
    )


def why_not(training: Training, struck: Leg | None) -> str:
    """Why a training did not come back from its planned failure."""
    last = training.legs[-1]
    if struck is None and training.whole:
        return "training was over before the failure came"
    return f"launch {last.number} failed: {last.classification}: {last.reason}"


def times_of(struck: Leg | None, after: Leg | None, resumed: int | None, step_s: float | None) -> dict[str, Quantity]:
    """detection_time, restart_time with its parts, steps_lost and time_lost of one failure."""
    moments: dict[str, float | None] = {}
    if struck is not None:
        moments |= {"struck": struck.struck_s, "noticed": struck.noticed_s, "ended": struck.ended_s}
    if struck is not None and after is not None and after.clock == struck.clock:
        moments |= after.phases_s
    reason = "the failure did not come, or training did not go on in the same run of the harness"

    def between(begin: str, end: str, statistic: str) -> Quantity:
        first, last = moments.get(begin), moments.get(end)
        if first is None or last is None:
            return unknown("s", "measured", statistic, reason)
        return quantity(last - first, "s", statistic)

    times = {
        "detection_time": between("struck", "noticed", "from the failure until the watch on the job saw it"),
        "restart_time": between("noticed", "first_step", "from then until all ranks had taken a step again"),
        **{name: between(*part) for name, part in PARTS.items()},
    }
    lost = "the furthest step that any rank completed, less the step of the checkpoint"
    if struck is None or resumed is None:
        return {**times, "steps_lost": unknown("steps", "measured", lost, reason), "time_lost": _no_time(reason)}
    steps = quantity(float((struck.reached_step or 0) - resumed), "steps", lost)
    down = [times["detection_time"].value, times["restart_time"].value, step_s]
    if None in down:
        return {**times, "steps_lost": steps, "time_lost": _no_time(reason)}
    seconds = sum(value for value in down[:2] if value is not None) + (steps.value or 0.0) * (step_s or 0.0)
    return {**times, "steps_lost": steps, "time_lost": quantity(seconds, "s", _TIME_LOST, kind="derived")}


_TIME_LOST = "detection_time + restart_time + steps_lost x step_time"


def _no_time(reason: str) -> Quantity:
    return unknown("s", "derived", _TIME_LOST, reason)


def _median(each: Sequence[Quantity]) -> Quantity:
    """The median over failures of those that are known."""
    first, values = each[0], [one.value for one in each if one.value is not None]
    statistic = f"median over failures; {first.statistic}"
    if not values:
        return unknown(first.unit, first.kind, statistic, first.reason or "not known of any failure")
    return quantity(float(np.median(values)), first.unit, statistic, kind=first.kind, n_samples=len(values))


def largest_difference(losses: NDArray[np.float64], expected: NDArray[np.float64]) -> float | None:
    """Of two loss curves, relative to the second: 0 where all are equal, None where they are not of the same steps."""
    if losses.shape != expected.shape:
        return None
    if np.array_equal(losses, expected, equal_nan=True):
        return 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.abs(losses - expected) / np.abs(expected)
    relative = np.where(losses == expected, 0.0, relative)
    return float(relative.max()) if np.isfinite(relative).all() else None


def came_back(failures: Sequence[Failed]) -> Check:
    lost = [failure for failure in failures if not failure.resumed]
    if not lost:
        return Check(
            name="resumed", status="VALID", detail=f"training went on after {len(failures)} of {len(failures)} failures"
        )
    return Check(
        name="resumed",
        status="INVALID",
        detail=f"training did not go on with seed {lost[0].seed}: {lost[0].reason}",
        evidence={"seeds": [failure.seed for failure in lost]},
        advice="launches of these trainings are in the run's folder, in recovery/<case id>/seed<n>; --resume tries again",
    )


def same_losses(failures: Sequence[Failed], tolerance: float) -> Check:
    """Whether the losses of every training that came back are those of the one without a failure."""
    known = {failure.seed: failure.largest_difference for failure in failures if failure.resumed}
    if not known:
        return Check(name="same_losses", status="UNKNOWN", detail="no training came back")
    worst = max(known, key=lambda seed: float("inf") if known[seed] is None else float(known[seed] or 0.0))
    evidence: dict[str, Any] = {"largest_difference": known[worst], "tolerance": tolerance, "seed": worst}
    difference = known[worst]
    if difference is None:
        detail = f"losses after the failure of seed {worst} cannot be compared: other steps, or no numbers"
    elif difference == 0:
        detail = "all losses are those of the training without a failure, bit for bit"
    else:
        detail = f"losses differ from those without a failure by up to {difference:.2g} ({tolerance:g} is allowed)"
    good = difference is not None and difference <= tolerance
    return Check(name="same_losses", status="VALID" if good else "INVALID", detail=detail, evidence=evidence)


def period(mtbf_s: float, costs: Mapping[str, Quantity], over: Mapping[str, Quantity], here: int) -> Period:
    """How often to save at that mean time between failures, by what was measured of this case."""
    needed = (costs["checkpoint_time"], costs["step_time"], over["detection_time"], over["restart_time"])
    reason = next((one.reason for one in needed if one.value is None), None)
    save_s, step_s, detection_s, restart_s = (one.value or 0.0 for one in needed)
    made = "by Daly's complete model (2006) from checkpoint_time, detection_time + restart_time"

    def derived(value: float, unit: str, statistic: str) -> Quantity:
        if reason is None and np.isfinite(value):
            return quantity(value, unit, statistic, kind="derived")
        return unknown(unit, "derived", statistic, reason or "failures come too fast for training ever to end")

    best = checkpointing.best_steps(step_s or 1.0, save_s, detection_s + restart_s, mtbf_s)
    used = checkpointing.overhead(here * (step_s or 1.0), save_s, detection_s + restart_s, mtbf_s)
    return Period(
        mtbf_s=mtbf_s,
        young=derived(checkpointing.young(save_s, mtbf_s), "s", "sqrt(2 x checkpoint_time x MTBF) (Young 1974)"),
        daly=derived(checkpointing.daly(save_s, mtbf_s), "s", "higher order in checkpoint_time / MTBF (Daly 2006)"),
        steps=derived(float(best.steps), "steps", f"cheapest whole number {made}"),
        overhead=derived(best.overhead, "1", f"added to training {made}"),
        overhead_here=derived(used, "1", f"added to training {made}"),
    )
