"""Builds small histories: results folders of invented nights, every quantity marked `simulated`."""

import datetime
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reports"))
import builder

from tfscale.suite.runfolder import dump
from tfscale.suite.spec import Case

START = datetime.datetime(2026, 1, 1, 2, tzinfo=datetime.UTC)
BERT, VIT = "bert", "vit"
CASES: dict[str, Case] = {
    BERT: Case(workload="bert", preset="mini", strategy="mirrored", devices=2, per_replica_batch=8),
    VIT: Case(workload="vit", preset="micro", per_replica_batch=32),
}
"""Cases by the names that tests call them."""
ENVIRONMENT: dict[str, Any] = builder.ENVIRONMENT | {"directory": {"git": "abc0000"}, "nics": [{"name": "eth0"}]}
PARTS = {
    "compute": 600,
    "exposed_communication": 200,
    "exposed_copy": 0,
    "input_wait": 50,
    "host_overhead": 50,
    "idle": 100,
}


def cases(count: int, **more: Any) -> list[str]:
    """Names of different cases without end."""
    for size in range(1, count + 1):
        CASES[f"case{size}"] = Case(workload="bert", preset="mini", per_replica_batch=size, **more)
    return [f"case{size}" for size in range(1, count + 1)]


def case_id(name: str) -> str:
    return CASES[name].id


def run_id(night: int) -> str:
    return f"{START + datetime.timedelta(days=night):%Y%m%dT%H%M%S}000Z-{night:04x}"


class Results:
    """A results folder; `night` adds one run to it, a day after the one before."""

    def __init__(self, path: Path, suite: str = "nightly") -> None:
        self.path, self.suite, self.count = path, suite, 0

    def night(
        self,
        values: Mapping[str, Sequence[float]],
        *,
        environment: Mapping[str, Any] | None = None,
        parts: Mapping[str, Mapping[str, int]] | None = None,
        memory: float = 1e9,
        failed: Mapping[str, str] | None = None,
        missing: Sequence[str] = (),
        status: str = "VALID",
    ) -> str:
        """One run: throughputs of the trials by case. `failed`: reasons; `missing`: planned and never run."""
        run, around = run_id(self.count), {**ENVIRONMENT, **(environment or {})}
        self.count += 1
        folder = self.path / run
        folder.mkdir(parents=True)
        (folder / "suite.yaml").write_text(f"name: {self.suite}\n")
        (folder / "environment.json").write_text(json.dumps(around))
        for name, trials in values.items():
            case = CASES[name]
            for trial, value in enumerate(trials):
                told = document(case, run, trial, value, around, memory, status)
                if parts and name in parts and trial == 0:
                    told["breakdown"] = {"span_ps": sum(parts[name].values()), "parts": dict(parts[name])}
                write(folder / case.id / str(trial) / "record.json", told)
        for name, reason in (failed or {}).items():
            case = CASES[name]
            place = folder / case.id / "0" / "failure.json"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(dump(builder.failure(case, "oom", reason, "log")))
        planned = {
            "cases": [{"case_id": case_id(name)} for name in values],
            "failed": [{"case_id": case_id(name)} for name in failed or ()],
            "missing": [case_id(name) for name in missing],
        }
        (folder / "run.json").write_text(json.dumps(planned))
        return run


_TEMPLATES: dict[str, dict[str, Any]] = {}


def document(
    case: Case, run: str, trial: int, value: float, around: Mapping[str, Any], memory: float, status: str
) -> dict[str, Any]:
    """A whole record whose throughput is `value`."""
    if case.id not in _TEMPLATES:
        _TEMPLATES[case.id] = builder.record(case).model_dump(mode="json", by_alias=True)
    told = dict(_TEMPLATES[case.id])
    night = datetime.datetime.strptime(run[:15], "%Y%m%dT%H%M%S").replace(tzinfo=datetime.UTC)
    told |= {"id": f"{run}/{case.id}/{trial}", "run": run, "trial": trial, "created": night.isoformat()}
    told["environment"] = around
    told["validity"] = told["validity"] | {"status": status}
    known, plain = told["quantities"], {"ci95": None, "ci_method": None}
    told["quantities"] = known | {
        "throughput": known["throughput"] | plain | {"value": value},
        "step_time": known["step_time"] | plain | {"value": case.step_batch / value},
        "memory_peak_host": known["memory_peak_host"] | {"value": memory},
    }
    return told


def write(path: Path, told: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told))


def trials(level: float, seed: int, *, count: int = 3, between: float = 0.008, within: float = 0.004) -> list[float]:
    """Throughputs of one night's trials: lognormal between nights and within."""
    noise = np.random.default_rng(seed)
    return [float(level * np.exp(v)) for v in noise.normal(0, between) + noise.normal(0, within, count)]


def steady(results: Results, levels: Mapping[str, float], nights: int, seed: int = 0, **more: Any) -> list[str]:
    """Nights at one level each case."""
    runs = []
    for night in range(nights):
        values = {case: trials(level, seed + 1000 * night + k) for k, (case, level) in enumerate(levels.items())}
        runs.append(results.night(values, **more))
    return runs
