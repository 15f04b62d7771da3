"""From what the ranks of one launch left to one record."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfscale.suite import counters, exchanged, summarise, workload
from tfscale.suite.analysis import peaks
from tfscale.suite.analysis.scaling import mfu
from tfscale.suite.counters import Counted
from tfscale.suite.launch import load_strategy
from tfscale.suite.monitors.series import Window
from tfscale.suite.plan import RankPlan, cores_shared
from tfscale.suite.rankfiles import BLOCKS, LOG, write_arrays
from tfscale.suite.ranks import MergeError, RankData, block_arrays, clock_offsets, collect
from tfscale.suite.record import Record, Validity
from tfscale.suite.runfolder import record_id, utc_now
from tfscale.suite.strategies.base import Strategy
from tfscale.suite.summarise import Timing
from tfscale.suite.validity.base import Evidence
from tfscale.suite.validity.judging import judge_trial
from tfscale.suite.validity.learning import loss_of_ranks
from tfscale.suite.workload import Workload

NO_PEAK = "no peak is known for this device and math; `tfscale bench gemm` measures one"


def merge(
    plans: Sequence[RankPlan],
    *,
    run: str,
    folder: Path,
    environment: dict[str, Any],
    reproduce: str,
    port_retries: int = 0,
    notes: Sequence[str] = (),
    monitors: Sequence[str] = (),
    unsampled: str | None = None,
    neighbours: Sequence[str] = (),
) -> Record:
    """Read the ranks' files, write the trial's blocks.npz into `folder`, and return its record (not yet stored).

    Raises MergeError.
    """
    ranks = collect(plans)
    case = plans[0].case
    try:
        timing = time_of(ranks)
        counted = counters.count(folder, monitors, window_of(ranks, timing), unsampled)
        record = record_of(
            ranks,
            timing,
            counted,
            load_strategy(case.strategy),
            workload.load(case.workload),
            run=run,
            environment=environment,
            reproduce=reproduce,
            notes=notes,
            counts={"port_retries": port_retries, "ranks": len(plans)},
            neighbours=neighbours,
        )
    except ValueError as error:
        raise MergeError(str(error)) from error
    except Exception as error:  # a user's workload is asked for names and FLOPs: its fault must not end the sweep
        raise MergeError(f"workload {case.workload}: {type(error).__name__}: {error}") from error
    write_arrays(folder / BLOCKS, block_arrays(ranks))
    kept = counters.keep(folder, counted, [rank.series for rank in ranks], timing.steady.start)
    return record.model_copy(update={"files": {**record.files, **kept}})


def time_of(ranks: Sequence[RankData]) -> Timing:
    """The timing of a trial from its ranks' series. Raises ValueError for ranks that do not fit together."""
    series, offsets = [rank.series for rank in ranks], clock_offsets(ranks)
    timed = summarise.time_in_lockstep if in_lockstep(ranks) else summarise.time_apart
    return timed(series, offsets)


def record_of(
    ranks: Sequence[RankData],
    timing: Timing,
    counted: Counted,
    strategy: Strategy,
    workload: Workload,
    *,
    run: str,
    environment: dict[str, Any],
    reproduce: str,
    notes: Sequence[str],
    counts: dict[str, int],
    neighbours: Sequence[str] = (),
) -> Record:
    """The record of one trial."""
    plan = ranks[0].plan
    case, lockstep = plan.case, in_lockstep(ranks)
    series = [rank.series for rank in ranks]
    sample = f"{workload.sample}s"
    loss, _ = loss_of_ranks(ranks)
    quantities = {
        **summarise.speed(timing, sample, claims_interval=plan.measure.steps is None),
        **summarise.tails(ranks, lockstep),
        **summarise.memory(ranks),
        **exchanged.quantities([rank.result for rank in ranks], case.exchange),
    }
    if counted.monitors:
        quantities |= counters.energy(counted, quantities["throughput"], workload.sample)
    flops = workload.flops(case.preset, round(timing.global_batch)).total
    effective = {**_effective(ranks), **exchanged.effective([rank.result for rank in ranks])}
    peak = peaks.of_record(environment, effective) if plan.accelerator == "gpu" else None
    per_replica = peak.flops_per_s if peak else None
    quantities["mfu"] = mfu(flops, quantities["step_time"], case.devices, per_replica, reason=NO_PEAK)
    effective["final_loss_scale"] = ranks[0].result.final_loss_scale
    if ranks[0].result.final_loss_scale is None:
        effective["final_loss_scale_reason"] = f"{case.precision} has no loss scale"
    if peak:
        effective["peak_source"] = peak.source
    evidence = Evidence(
        ranks=ranks,
        strategy=strategy,
        timing=timing,
        window=counted.window,
        quantities=quantities,
        effective=effective,
        monitors=counted.monitors,
        series=counted.series,
        environment=environment,
        notes=notes,
        neighbours=neighbours,
    )
    return Record(
        id=record_id(run, plan.case_id, plan.trial),
        run=run,
        case_id=plan.case_id,
        case=case.model_dump(mode="json"),
        trial=plan.trial,
        created=utc_now(),
        target=plan.measure.target if plan.measure.steps is None else None,
        steady=timing.steady,
        quantities=quantities,
        monitors=dict(counted.monitors),
        phases=summarise.phases(ranks),
        effective=effective,
        counts={**_counts(ranks, lockstep), **counts, "blocks": len(series[0]), "block_steps": series[0].block_steps},
        loss=loss,
        validity=Validity.of(judge_trial(evidence)),
        environment=environment,
        files={"blocks": BLOCKS, **{f"log_rank{r.plan.rank}": f"rank{r.plan.rank}/{LOG}" for r in ranks}},
        reproduce=reproduce,
    )


def window_of(ranks: Sequence[RankData], timing: Timing) -> Window:
    """Steady window of the job: from when the last rank is in it to when the last rank leaves it.

    It is on the harness's clock, where those of the hosts can be compared with it.
    """
    last = [min(timing.steady.stop, len(rank.series)) - 1 for rank in ranks]
    first = [min(timing.steady.start, stop) for stop in last]
    offsets = [round(offset) for offset in clock_offsets(ranks) or [0.0] * len(ranks)]
    starts = [int(rank.series.start_ns[at]) - ahead for rank, at, ahead in zip(ranks, first, offsets, strict=True)]
    ends = [int(rank.series.end_ns[at]) - ahead for rank, at, ahead in zip(ranks, last, offsets, strict=True)]
    return Window(max(starts), max(ends))


def in_lockstep(ranks: Sequence[RankData]) -> bool:
    """Whether the ranks belong to one job; replicas of `independent` each have a cluster, and a step, of their own."""
    return len(ranks) == 1 or bool(ranks[0].plan.cluster)


def _effective(ranks: Sequence[RankData]) -> dict[str, Any]:
    """What rank 0 really used, and how the ranks were started; a null has its reason beside it."""
    start = ranks[0].launch.get("start")
    told = {"start": start or None}
    reason = ranks[0].launch.get("reason") or (None if start else "this launcher does not tell")
    shared = {"cores_shared": True} if cores_shared([rank.plan for rank in ranks]) else {}
    placed = ranks[0].launch.get("effective", {})
    reasons = {"start_reason": reason} if reason else {}
    return {**ranks[0].result.effective, **told, **reasons, **placed, **shared, **_clock(ranks)}


def _clock(ranks: Sequence[RankData]) -> dict[str, Any]:
    """How well the clocks of the job's hosts are known against each other, where they are not one clock."""
    bounds = sorted(rank.clocks.monotonic.bound_ns for rank in ranks if rank.clocks is not None)
    if clock_offsets(ranks) is None:
        return {"clock_bound_s": None, "clock_bound_s_reason": "nobody compared the clocks of its hosts"}
    return {"clock_bound_s": sum(bounds[-2:]) / 1e9} if any(bounds) else {}


def _counts(ranks: Sequence[RankData], lockstep: bool) -> dict[str, int]:
    """The largest over ranks, who count the same things; samples of ranks that run apart add."""
    names = {name: None for rank in ranks for name in rank.result.counts}
    counts = {name: max(rank.result.counts.get(name, 0) for rank in ranks) for name in names}
    if not lockstep and "samples" in counts:
        counts["samples"] = sum(rank.result.counts.get("samples", 0) for rank in ranks)
    return counts
