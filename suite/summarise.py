"""From the ranks' series to the quantities of a record: pure functions, after DESIGN.md's definitions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.ranks import RankData
from tfscale.suite.record import Quantity, Steady, unknown
from tfscale.suite.timing import job, statistics
from tfscale.suite.timing.series import BlockSeries
from tfscale.suite.timing.steady import classify, classify_job, steady_problem

IN_QUADRATURE = "ranks' within-trial intervals in quadrature"
_NO_TAIL = "the pass with a stamp on every step was left out"
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Timing:
    """Step time of a job, and what it was taken from. `window_seconds`: seconds per step of its steady blocks."""

    steady: Steady
    problem: str | None
    """Why the steady state makes the case SUSPECT."""
    step_time: Quantity
    global_batch: float
    """Samples per step, as counted in the ranks."""
    window_seconds: Floats
    window_blocks: int


def time_in_lockstep(ranks: Sequence[BlockSeries], offsets: Sequence[float] | None) -> Timing:
    """Ranks of one synchronous job: where their clocks can be compared (`offsets`, in ns, as `job.merge` takes them), a
    block ends when the last rank ends it. Raises ValueError."""
    whole = job.merge(ranks, offsets)
    steady = classify_job(whole.step_seconds, [rank.step_seconds for rank in ranks])
    window = job.merge(ranks, offsets, (steady.start, steady.stop))
    step_time = exact_mean(window.step_seconds, window.step_time)
    return Timing(
        steady=steady,
        problem=steady_problem(steady),
        step_time=step_time,
        global_batch=window.global_batch,
        window_seconds=window.step_seconds,
        window_blocks=steady.stop - steady.start,
    )


def exact_mean(step_seconds: Floats, elapsed_over_steps: float) -> Quantity:
    """Mean step time. Blocks of an asynchronous job hold unequal steps: their mean is not elapsed / steps."""
    mean = statistics.mean(step_seconds)
    assert mean.value is not None
    ratio = elapsed_over_steps / mean.value
    interval = (mean.ci95[0] * ratio, mean.ci95[1] * ratio) if mean.ci95 else None
    return mean.model_copy(update={"value": elapsed_over_steps, "ci95": interval})


def time_apart(ranks: Sequence[BlockSeries], offsets: Sequence[float] | None) -> Timing:
    """Replicas that run at once without exchange: rates in the common window add. Raises ValueError."""
    steadies = [classify(rank.step_seconds, comparisons=len(ranks)) for rank in ranks]
    windows = [(steady.start, steady.stop) for steady in steadies]
    rate = job.merge_independent(ranks, offsets, windows)
    seconds = [rank.step_seconds[slice(*window)] for rank, window in zip(ranks, windows, strict=True)]
    problems = [steady_problem(steady) for steady in steadies]
    shown = next((i for i, problem in enumerate(problems) if problem), 0)
    half = _relative_half_width(ranks, seconds)
    # On the logarithm of the rate, so that its interval and the step time's are reciprocal and stay positive.
    spread = math.exp(half) if half is not None else None
    interval = (rate.step_time / spread, rate.step_time * spread) if spread else None
    pooled = np.concatenate(seconds)
    step_time = statistics.quantity(
        rate.step_time,
        "s",
        "mean",
        n_samples=pooled.size,
        ci95=interval,
        ci_method=IN_QUADRATURE if interval else None,
    )
    return Timing(
        steady=steadies[shown],
        problem=problems[shown] and f"rank {shown}: {problems[shown]}",
        step_time=step_time,
        global_batch=rate.global_batch,
        window_seconds=pooled,
        window_blocks=pooled.size,
    )


def _relative_half_width(ranks: Sequence[BlockSeries], seconds: Sequence[Floats]) -> float | None:
    """Of the sum of the ranks' rates; None where a rank has too few blocks for an interval of its own."""
    rates = [float(rank.samples.sum()) / rank.elapsed_s for rank in ranks]
    halves = [statistics.mean_half_width(values) / float(values.mean()) for values in seconds]
    total = math.hypot(*(rate * half for rate, half in zip(rates, halves, strict=True))) / sum(rates)
    return total if math.isfinite(total) else None


def without_interval(quantity: Quantity) -> Quantity:
    return quantity.model_copy(update={"ci95": None, "ci_method": "none claimed: the number of steps was fixed"})


def speed(timing: Timing, sample: str, *, claims_interval: bool) -> dict[str, Quantity]:
    """step_time, its median and jitter, throughput and global_batch; `sample` is the plural of what one is called."""
    step_time = timing.step_time if claims_interval else without_interval(timing.step_time)
    return {
        "step_time": step_time,
        "step_time_median": statistics.median(timing.window_seconds),
        "jitter": statistics.jitter(timing.window_seconds),
        "throughput": statistics.throughput(step_time, timing.global_batch, f"{sample}/s"),
        "global_batch": statistics.quantity(timing.global_batch, sample, "counted", n_samples=timing.window_blocks),
    }


def tails(ranks: Sequence[RankData], lockstep: bool) -> dict[str, Quantity]:
    """step_time_p95, _p99 and _max. In lockstep the rank whose stamped steps took longest stands for the job."""
    stamped = [rank.result.tail_s for rank in ranks if rank.result.tail_s]
    if not stamped:
        return {f"step_time_{name}": unknown("s", "measured", name, _NO_TAIL) for name in ("p95", "p99", "max")}
    chosen = max(stamped, key=sum) if lockstep else [seconds for rank in stamped for seconds in rank]
    return {f"step_time_{name}": quantity for name, quantity in statistics.tails(chosen).items()}


def memory(ranks: Sequence[RankData]) -> dict[str, Quantity]:
    """Peak memory in bytes, of the rank that has most."""
    statistic = "maximum over ranks"
    reasons = {
        "host": "the peak resident size could not be read",
        "device": "a CPU device has no memory of its own"
        if ranks[0].plan.accelerator == "cpu"
        else "the device's allocator does not tell its peak",
    }
    quantities = {}
    for place, reason in reasons.items():
        peaks = [peak for rank in ranks if (peak := rank.result.memory_peak_bytes.get(place)) is not None]
        quantities[f"memory_peak_{place}"] = (
            statistics.quantity(max(peaks), "bytes", statistic, n_samples=len(peaks))
            if peaks
            else unknown("bytes", "measured", statistic, reason)
        )
    return quantities


def phases(ranks: Sequence[RankData]) -> dict[str, Quantity]:
    """Seconds of each phase, the largest over ranks; `launch` is from the launcher's order to the rank's first line."""
    largest: dict[str, float] = {}
    for rank in ranks:
        launch = rank.launch.get("launched_ns")
        own = {"launch": (rank.started_ns - launch) / 1e9} if launch is not None and rank.started_ns else {}
        for name, seconds in {**own, **rank.result.phases}.items():
            largest[name] = max(seconds, largest.get(name, seconds))
    return {name: statistics.quantity(s, "s", "largest over ranks") for name, s in largest.items()}
