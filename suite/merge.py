"""From what the ranks of one launch left to one record."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfscale.suite import summarise, workload
from tfscale.suite.analysis import peaks
from tfscale.suite.analysis.scaling import mfu
from tfscale.suite.launch import load_strategy
from tfscale.suite.plan import RankPlan
from tfscale.suite.rankfiles import BLOCKS, LOG, write_arrays
from tfscale.suite.ranks import MergeError, RankData, block_arrays, collect
from tfscale.suite.record import Check, Record, Validity
from tfscale.suite.runfolder import record_id, utc_now
from tfscale.suite.strategies.base import Strategy
from tfscale.suite.summarise import Timing
from tfscale.suite.validity.learning import loss_verdict
from tfscale.suite.workload import Workload

_WORST_LOSS = ("nan_loss", "no_learning", "unknown", "falling")
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
) -> Record:
    """Read the ranks' files, write the trial's blocks.npz into `folder`, and return its record (not yet stored).

    Raises MergeError.
    """
    ranks = collect(plans)
    case = plans[0].case
    try:
        record = record_of(
            ranks,
            load_strategy(case.strategy),
            workload.load(case.workload),
            run=run,
            environment=environment,
            reproduce=reproduce,
            notes=notes,
            counts={"port_retries": port_retries, "ranks": len(plans)},
        )
    except ValueError as error:
        raise MergeError(str(error)) from error
    except Exception as error:  # a user's workload is asked for names and FLOPs: its fault must not end the sweep
        raise MergeError(f"workload {case.workload}: {type(error).__name__}: {error}") from error
    write_arrays(folder / BLOCKS, block_arrays(ranks))
    return record


def record_of(
    ranks: Sequence[RankData],
    strategy: Strategy,
    workload: Workload,
    *,
    run: str,
    environment: dict[str, Any],
    reproduce: str,
    notes: Sequence[str],
    counts: dict[str, int],
) -> Record:
    """The record of one trial. Raises ValueError for ranks that do not fit together."""
    plan = ranks[0].plan
    case, lockstep = plan.case, in_lockstep(ranks)
    series = [rank.series for rank in ranks]
    timing = summarise.time_in_lockstep(series) if lockstep else summarise.time_apart(series)
    sample = f"{workload.sample}s"
    loss, learning = _loss(ranks)
    quantities = {
        **summarise.speed(timing, sample, claims_interval=plan.measure.steps is None),
        **summarise.tails(ranks, lockstep),
        **summarise.memory(ranks),
    }
    flops = workload.flops(case.preset, round(timing.global_batch)).total
    effective = _effective(ranks)
    peak = peaks.of_record(environment, effective) if plan.accelerator == "gpu" else None
    per_replica = peak.flops_per_s if peak else None
    quantities["mfu"] = mfu(flops, quantities["step_time"], case.devices, per_replica, reason=NO_PEAK)
    effective["final_loss_scale"] = ranks[0].result.final_loss_scale
    if ranks[0].result.final_loss_scale is None:
        effective["final_loss_scale_reason"] = f"{case.precision} has no loss scale"
    if peak:
        effective["peak_source"] = peak.source
    checks = (*_checks(ranks, strategy, timing, notes), learning)
    return Record(
        id=record_id(run, plan.case_id, plan.trial),
        run=run,
        case_id=plan.case_id,
        case=case.model_dump(mode="json"),
        trial=plan.trial,
        created=utc_now(),
        steady=timing.steady,
        quantities=quantities,
        phases=summarise.phases(ranks),
        effective=effective,
        counts={**_counts(ranks, lockstep), **counts, "blocks": len(series[0]), "block_steps": series[0].block_steps},
        loss=loss,
        validity=Validity.of(checks),
        environment=environment,
        files={"blocks": BLOCKS, **{f"log_rank{r.plan.rank}": f"rank{r.plan.rank}/{LOG}" for r in ranks}},
        reproduce=reproduce,
    )


def in_lockstep(ranks: Sequence[RankData]) -> bool:
    """Whether the ranks belong to one job; replicas of `independent` each have a cluster, and a step, of their own."""
    return len(ranks) == 1 or bool(ranks[0].plan.cluster)


def _checks(ranks: Sequence[RankData], strategy: Strategy, timing: Timing, notes: Sequence[str]) -> list[Check]:
    case = ranks[0].plan.case
    wanted = strategy.replicas(case)
    batch = case.step_batch if strategy.synchronous else case.micro_batch * case.accumulation
    retraces = max(rank.result.counts.get("retraces", 0) for rank in ranks)
    checks = [
        *(_self_check(rank) for rank in ranks),
        *(_replicas(rank, wanted) for rank in ranks),
        Check(
            name="samples",
            status="VALID" if np.isclose(timing.global_batch, batch, rtol=1e-9) else "INVALID",
            detail=f"{timing.global_batch:g} samples a step were counted, {batch} were planned",
        ),
        Check(
            name="steady_state",
            status="SUSPECT" if timing.problem else "VALID",
            detail=timing.problem or f"{timing.steady.classification}, {timing.window_blocks} steady blocks",
        ),
    ]
    if retraces:
        detail = f"the step was traced again {retraces} times while it ran"
        checks.append(Check(name="retraces", status="SUSPECT", detail=detail))
    if differing := _differing(ranks):
        detail = f"ranks differ in what they really used: {', '.join(differing)}"
        checks.append(Check(name="same_on_all_ranks", status="SUSPECT", detail=detail))
    checks += [Check(name="after_the_result", status="VALID", detail=note) for note in notes]
    return checks


def _self_check(rank: RankData) -> Check:
    check = rank.result.self_check
    detail = f"rank {rank.plan.rank}: {check.detail}"
    return Check(name="self_check", status="INVALID" if check.passed is False else "VALID", detail=detail)


def _replicas(rank: RankData, wanted: int) -> Check:
    got = rank.result.replicas
    detail = f"rank {rank.plan.rank} trains with {got} replicas, {wanted} were planned"
    return Check(name="replicas", status="VALID" if got == wanted else "INVALID", detail=detail)


def _effective(ranks: Sequence[RankData]) -> dict[str, Any]:
    """What rank 0 really used, and how the ranks were started; a null has its reason beside it."""
    start = ranks[0].launch.get("start")
    told = {"start": start or None}
    reason = ranks[0].launch.get("reason") or (None if start else "this launcher does not tell")
    return {**ranks[0].result.effective, **told, **({"start_reason": reason} if reason else {})}


def _differing(ranks: Sequence[RankData]) -> list[str]:
    first = ranks[0].result.effective
    return [name for name in first if any(rank.result.effective.get(name) != first[name] for rank in ranks[1:])]


def _counts(ranks: Sequence[RankData], lockstep: bool) -> dict[str, int]:
    """The largest over ranks, who count the same things; samples of ranks that run apart add."""
    names = {name: None for rank in ranks for name in rank.result.counts}
    counts = {name: max(rank.result.counts.get(name, 0) for rank in ranks) for name in names}
    if not lockstep and "samples" in counts:
        counts["samples"] = sum(rank.result.counts.get("samples", 0) for rank in ranks)
    return counts


def _loss(ranks: Sequence[RankData]) -> tuple[dict[str, Any], Check]:
    """The verdict on the loss; in lockstep all ranks see the same one, apart the worst counts."""
    told = [loss_verdict(rank.series.group_loss, rank.series.group_step) for rank in ranks]
    return min(told, key=lambda pair: _WORST_LOSS.index(pair[0]["verdict"]))
