"""Builds plausible runs for the report's tests: invented numbers, so every one of them is marked `simulated`.

Run as a program, it renders the full example: `python tests/reports/builder.py example.html`.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.caseresult import case_result
from tfscale.suite.record import (
    CaseResult,
    Check,
    Failure,
    Kind,
    Level,
    Pruned,
    Quantity,
    Record,
    Run,
    Steady,
    Validity,
    unknown,
)
from tfscale.suite.spec import Case
from tfscale.suite.timing.series import BlockSeries

Blocks = dict[str, dict[str, NDArray[Any]]]

SAMPLE = {"bert": "sequences", "vit": "images", "recommender": "samples"}
STEP_S = {"bert": 0.0812, "vit": 0.1437, "recommender": 0.0121}
MEMORY = {"bert": 1.42e9, "vit": 1.91e9, "recommender": 3.66e9}
PHASES = {"import": 6.8, "join": 0.4, "build": 1.9, "check": 0.6, "trace": 2.3, "compile": 0.0, "first_step": 0.9}
LOST_PER_DOUBLING = {
    "one_device": 0.0, "independent": 0.02, "mirrored": 0.05, "multi_worker_mirrored": 0.12, "parameter_server": 0.18,
}  # fmt: skip
PRECISION = {"float32": 1.0, "tf32": 0.8, "mixed_bfloat16": 0.72, "mixed_float16": 0.78}
XLA = {"none": 1.0, "cluster": 0.86, "auto": 0.95}
ENVIRONMENT: dict[str, Any] = {
    "host": "bench-01",
    "cpu": {
        "model": "Example 9000 64-Core Processor",
        "cores": 64,
        "threads": 128,
        "usable": 64,
        "governor": "performance",
    },
    "memory_bytes": 540_000_000_000,
    "gpus": [],
    "kernel": "6.8.0",
    "os": "Linux-6.8.0-x86_64-with-glibc2.39",
    "python": "3.12.4",
    "packages": {"tensorflow-cpu": "2.19.0", "keras": "3.10.0", "numpy": "2.1.3"},
    "variables": {"OMP_NUM_THREADS": "8"},
    "load_average": [0.31, 0.28, 0.2],
    "tfscale": {"version": "0.1.0", "git": None},
}


def quantity(
    value: float,
    unit: str,
    statistic: str = "mean",
    *,
    relative: float | None = None,
    kind: Kind = "simulated",
) -> Quantity:
    """A quantity of one trial with an interval of +- `relative`."""
    interval = None if relative is None else (value * (1 - relative), value * (1 + relative))
    method = None if interval is None else "long-run variance of the blocks"
    return Quantity(
        value=value, unit=unit, kind=kind, statistic=statistic, n_samples=54, ci95=interval, ci_method=method
    )


def step_time(case: Case) -> float:
    """The invented mean step time in seconds."""
    base = STEP_S.get(case.workload, 0.05) * case.micro_batch * case.accumulation / 8
    lost = LOST_PER_DOUBLING.get(case.strategy, 0.1) * np.log2(case.devices)
    return float(base * PRECISION[case.precision] * XLA[case.xla] / max(0.1, 1 - lost))


def quantities(case: Case, step_s: float, kind: Kind = "simulated", relative: float = 0.012) -> dict[str, Quantity]:
    def made(value: float, unit: str, statistic: str = "mean", interval: float | None = None) -> Quantity:
        return quantity(value, unit, statistic, relative=interval, kind=kind)

    batch = case.step_batch
    memory = MEMORY.get(case.workload, 1e9)
    return {
        "step_time": made(step_s, "s", "mean", relative),
        "step_time_median": made(step_s * 0.992, "s", "median"),
        "step_time_p95": made(step_s * 1.06, "s", "p95"),
        "step_time_p99": made(step_s * 1.11, "s", "p99"),
        "throughput": made(batch / step_s, f"{SAMPLE.get(case.workload, 'samples')}/s", "mean", relative),
        "global_batch": made(batch, SAMPLE.get(case.workload, "samples"), "counted"),
        "mfu": unknown("1", kind, "mean", "no peak is known for this CPU and no measured GEMM peak is on record")
        if case.workload == "recommender"
        else made(0.31 / step_s * STEP_S.get(case.workload, 0.05), "1", "mean", relative),
        "memory_peak_host": made(memory, "bytes", "maximum over ranks"),
        "memory_peak_device": unknown("bytes", kind, "maximum over ranks", "a CPU device has no memory of its own"),
    }


def record(
    case: Case,
    *,
    trial: int = 0,
    run: str = "20250301-0200",
    step_s: float | None = None,
    kind: Kind = "simulated",
    checks: tuple[Check, ...] = (),
    loss: str = "falling",
) -> Record:
    step_s = step_time(case) if step_s is None else step_s
    phases = PHASES | {
        "compile": 7.5 if case.xla != "none" else 0.0,
        "join": 0.2 * case.devices,
        "trace": 10 * step_s + 1.5,
    }
    warm = 6
    return Record(
        id=f"{case.id}-{trial}",
        run=run,
        case_id=case.id,
        case=case.axes(),
        trial=trial,
        created="2025-03-01T02:11:00Z",
        steady=Steady.model_validate(
            {
                "class": "warm-up",
                "levels": [
                    {"start": 0, "stop": warm, "mean": step_s * 1.3},
                    Level(start=warm, stop=60, mean=step_s),
                ],
                "start": warm,
                "stop": 60,
            }
        ),
        quantities=quantities(case, step_s, kind=kind),
        phases={name: quantity(value, "s", "largest over ranks", kind=kind) for name, value in phases.items() if value},
        effective={"collective": None, "collective_reason": "no log line names it"},
        counts={"steps": 240, "samples": 240 * case.step_batch, "retraces": 0, "skipped_steps": 0},
        loss={"first_fifth": [10.2, 0.02], "last_fifth": [9.1, 0.03], "verdict": loss},
        validity=Validity.of(checks),
        environment=ENVIRONMENT,
        files={"blocks": "blocks.npz"},
        reproduce=f"tfscale run suites/example.yaml --only 'workload={case.workload},devices={case.devices}'",
    )


def failure(case: Case, classification: str, reason: str, log_tail: str, rank: int | None = 1) -> Failure:
    return Failure.model_validate(
        {
            "case": case.axes(),
            "case_id": case.id,
            "trial": 0,
            "class": classification,
            "reason": reason,
            "rank": rank,
            "log_tail": log_tail,
            "reproduce": f"tfscale run suites/example.yaml --only 'devices={case.devices}'",
        }
    )


def run_of(
    cases: tuple[CaseResult, ...] = (),
    records: tuple[Record, ...] = (),
    failed: tuple[Failure, ...] = (),
    pruned: tuple[Pruned, ...] = (),
    **more: Any,
) -> Run:
    head = {"run": "20250301-0200", "suite": "example", "created": "2025-03-01T02:00:00Z", "environment": ENVIRONMENT}
    return Run(cases=cases, records=records, failed=failed, pruned=pruned, **(head | more))


def measured(cases: list[Case], trials: int = 1, **more: Any) -> tuple[list[CaseResult], list[Record]]:
    """Results and records of `cases`, each with its own slight deviation from the model, the same every time."""
    results, records = [], []
    for case in cases:
        noise = np.random.default_rng(int(case.id, 16))
        mine = [
            record(case, trial=trial, step_s=step_time(case) * float(noise.normal(1, 0.012)), **more)
            for trial in range(trials)
        ]
        records += mine
        results.append(case_result(mine))
    return results, records


def example() -> tuple[Run, Blocks]:
    """Three workloads over strategies, devices, precision and XLA, with every way in which a case can end."""
    kept = [case for case in _matrix() if case.workload == "bert" or case.precision == "float32" or case.devices == 1]
    failing = [case for case in kept if case.workload == "recommender" and case.xla == "cluster"]
    repeated = [case for case in (*kept, *_strong()) if case.workload != "vit" and case not in failing]
    results, records = measured(repeated, trials=3)
    for case in (case for case in kept if case.workload == "vit"):
        one = record(case, checks=(CHECKS.get((case.strategy, case.devices), AVERAGED),))
        records.append(one)
        results.append(case_result([one]))
    lost = Case(workload="vit", preset="small", strategy="multi_worker_mirrored", devices=4, per_replica_batch=8)
    failed = [failure(case, "xla_unsupported", "XLA cannot compile a sparse update", LOG, None) for case in failing]
    failed.append(failure(lost, "lost_rank", "rank 2 ended with signal 9 in step 41", LOG, 2))
    run = run_of(tuple(results), tuple(records), tuple(failed), PRUNED)
    return run, {each.id: blocks(each) for each in records}


def _matrix() -> list[Case]:
    batches = {"bert": ("tiny", 8), "recommender": ("micro", 128), "vit": ("micro", 16)}
    strategies = ("independent", "mirrored", "multi_worker_mirrored", "parameter_server")
    cases = []
    for workload, (preset, batch) in batches.items():
        for precision in ("float32", "mixed_bfloat16"):
            common = {"workload": workload, "preset": preset, "per_replica_batch": batch, "precision": precision}
            places = [{"strategy": strategy, "devices": devices} for strategy in strategies for devices in (2, 4, 8)]
            cases += [Case(**common, **place) for place in ({}, *places, {"xla": "cluster"})]
    return cases


def _strong() -> list[Case]:
    places = (("one_device", 1), ("mirrored", 2), ("mirrored", 4), ("mirrored", 8))
    return [Case(workload="bert", preset="tiny", strategy=s, devices=n, global_batch=32) for s, n in places]


AVERAGED = Check(name="self_check", status="VALID", detail="gradients are averaged")
CHECKS = {
    ("mirrored", 8): Check(name="steady_state", status="SUSPECT", detail="the last level has 14 blocks, 20 are needed"),
    ("parameter_server", 8): Check(
        name="self_check", status="INVALID", detail="rank 5 moved by its own gradient, not by the mean"
    ),
}
NO_TF32 = "tf32 needs an NVIDIA GPU of compute capability 8.0 or later; there is no GPU"
NO_NCCL = "nccl needs GPUs; TensorFlow would run something else on CPUs under that name"
PRUNED = (
    Pruned(case={"workload": "bert", "preset": "tiny", "per_replica_batch": 8, "precision": "tf32"}, reason=NO_TF32),
    Pruned(case={"workload": "vit", "preset": "micro", "per_replica_batch": 16, "precision": "tf32"}, reason=NO_TF32),
    Pruned(
        case={"workload": "bert", "preset": "tiny", "strategy": "mirrored", "devices": 2, "per_replica_batch": 8}
        | {"collective": "nccl"},
        reason=NO_NCCL,
    ),
)
LOG = "\n".join(
    [
        *(f"step {step} loss {9.8 - step / 50:.3f}" for step in range(20)),
        "\x1b[31mE tensorflow/core\x1b[0m: collective aborted, peer /job:worker/task:2 is gone",
        "Traceback (most recent call last):",
        '  File "worker.py", line 88, in main',
        "tensorflow.python.framework.errors_impl.UnavailableError: Socket closed",
    ]
)


def blocks(made: Record) -> dict[str, NDArray[Any]]:
    """The block series of the record's ranks, under `rank<r>/`: a pilot group, then blocks at the record's levels."""
    noise = np.random.default_rng(int(made.case_id, 16) + made.trial)
    levels = made.steady.levels
    per_step = np.concatenate([np.full(level.stop - level.start, level.mean) for level in levels])
    steps = max(1, round(0.25 / levels[-1].mean))
    arrays: dict[str, NDArray[Any]] = {}
    for rank in range(min(2, made.case.get("devices", 1))):
        lengths = per_step * steps * noise.normal(1, 0.012, per_step.size)
        lengths[noise.integers(0, lengths.size)] *= 1.25
        group = np.concatenate([[0.5], lengths, [0.2]])
        sizes = np.full(group.size, steps, dtype=np.int64)
        series = BlockSeries(
            begin_ns=1_000_000_000,
            first=1,
            stop=group.size - 1,
            group_size=sizes,
            group_end_ns=(2_000_000_000 + np.cumsum(group) * 1e9).astype(np.int64),
            group_step=np.cumsum(sizes),
            group_samples=np.cumsum(sizes * 8),
            group_loss=np.linspace(10, 9, group.size),
            group_skipped=np.zeros(group.size, dtype=np.int64),
        )
        arrays |= {f"rank{rank}/{name}": values for name, values in series.arrays().items()}
    return arrays


if __name__ == "__main__":
    from tfscale.reports.page import scaling_report

    Path(sys.argv[1]).write_text(scaling_report(*example()), encoding="utf-8")
