"""The head of the page and its plain words: what ran on what, how many cases ended how, what the terms mean."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tfscale.reports import text
from tfscale.suite.record import Run


@dataclass(frozen=True)
class Fact:
    name: str
    value: str


@dataclass(frozen=True)
class Count:
    name: str
    count: int


def facts(run: Run) -> list[Fact]:
    """Machine and software as the run captured them; what is not there is said to be unknown."""
    environment = run.environment
    found = [
        ("Host", _host(environment)),
        ("Processor", _processor(environment)),
        ("Accelerators", _accelerators(environment)),
        ("TensorFlow", _package(environment, "tensorflow")),
        ("Keras", _package(environment, "keras")),
        ("Workloads", ", ".join(_workloads(run)) or text.NONE),
    ]
    return [Fact(name, value) for name, value in found]


def _workloads(run: Run) -> list[str]:
    names = [f"{case.get('workload', '?')} {case.get('preset', '')}".strip() for case in _all_axes(run)]
    return list(dict.fromkeys(names))


def _all_axes(run: Run) -> list[Mapping[str, Any]]:
    return [*(result.case for result in run.cases), *(failure.case for failure in run.failed)]


def _host(environment: Mapping[str, Any]) -> str:
    parts = [environment.get("host"), environment.get("os")]
    return " · ".join(str(part) for part in parts if part) or "unknown: not captured"


def _processor(environment: Mapping[str, Any]) -> str:
    cpu = environment.get("cpu")
    if not isinstance(cpu, Mapping):
        return "unknown: not captured"
    usable, cores = cpu.get("usable"), cpu.get("cores")
    counts = [f"{cores} cores" if cores else "", f"{usable} usable" if usable else ""]
    memory = environment.get("memory_bytes")
    size = f"{text.size(memory)} memory" if isinstance(memory, int | float) else ""
    return ", ".join(part for part in [str(cpu.get("model") or "model unknown"), *counts, size] if part)


def _accelerators(environment: Mapping[str, Any]) -> str:
    gpus = environment.get("gpus", ...)
    if gpus is None or gpus is ... or not isinstance(gpus, list):
        return "unknown: the driver did not answer" if gpus is None else "unknown: not captured"
    names = Counter(str(gpu.get("name", "unnamed")) if isinstance(gpu, Mapping) else str(gpu) for gpu in gpus)
    return ", ".join(f"{count} × {name}" for name, count in names.items()) or "none: CPU only"


def _package(environment: Mapping[str, Any], start: str) -> str:
    packages = environment.get("packages")
    if not isinstance(packages, Mapping):
        return "unknown: not captured"
    found = [f"{version}" if name == start else f"{version} ({name})" for name, version in packages.items()
             if str(name).startswith(start)]  # fmt: skip
    return ", ".join(found) or "not installed"


def tally(cases: pd.DataFrame, failed: pd.DataFrame, pruned: pd.DataFrame) -> list[Count]:
    """How many cases ended how. A case of which only some trials failed counts by its result, not as failed."""
    status = cases["status"].value_counts()
    lost = failed[~failed["case_id"].isin(cases["case_id"])]["case_id"].nunique()
    results = [Count(name.lower(), int(status.get(name, 0))) for name in ("VALID", "SUSPECT", "INVALID")]
    return [*results, Count("failed", int(lost)), Count("pruned", len(pruned))]


def invented(quantities: pd.DataFrame) -> str:
    """A warning where the page holds numbers that nothing measured, else nothing."""
    kinds = set(quantities["kind"])
    strange = sorted(kinds & {"simulated", "published"})
    if not strange:
        return ""
    whole = "All of" if not kinds & {"measured", "derived"} else "Some of"
    return f"{whole} the numbers on this page are {' or '.join(strange)}, not measured by this run. Each says its kind."


def reasons(run: Run) -> dict[str, tuple[str, ...]]:
    """Case id -> what made it SUSPECT or INVALID."""
    return {
        result.case_id: tuple(
            f"{check.name}: {check.detail}"
            for check in result.validity.checks
            if check.status in ("SUSPECT", "INVALID")
        )
        for result in run.cases
    }


def cases_lead(quantities: pd.DataFrame) -> str:
    steps = quantities[quantities["name"] == "step_time"]
    trials = sorted(set(steps["n_trials"]))
    how_many = f"{trials[0]}" if len(trials) == 1 else f"{trials[0]} to {trials[-1]}" if trials else ""
    words = "Step time is the mean of the steady window; throughput is the global batch divided by it."
    return (
        f"{words} Trials a case: {how_many}. A dash is a value that could not be had; its note says why."
        if trials
        else ""
    )


def nothing_to_compare(cases: pd.DataFrame, failed: pd.DataFrame, pruned: pd.DataFrame) -> str:
    if len(cases) == 1:
        return "one case has a result."
    if len(cases):
        return f"{len(cases)} cases have a result, and none is the baseline of another."
    if len(failed):
        return "every case that was started failed."
    return "every case was pruned before the run." if len(pruned) else "the run has no case."


def no_curves(cases: pd.DataFrame) -> str:
    counts = sorted(set(cases["devices"]))
    if not counts:
        return "There is no curve: no case has a result."
    if len(counts) == 1:
        return f"There is no curve: every case ran on {text.plural(counts[0], 'device')}."
    return "There is no curve: no two cases with a valid result differ in the number of devices only."


def failures(failed: pd.DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[Any, Any]] = failed.to_dict("records")
    for row in rows:
        row["where"] = f"first seen on rank {row['rank']}" if pd.notna(row["rank"]) else "rank unknown"
    return rows


def pruned_groups(pruned: pd.DataFrame) -> list[dict[str, Any]]:
    """Pruned cases by reason, the reason first: there are often many of one."""
    return [
        {"reason": reason, "titles": list(group["title"])} for reason, group in pruned.groupby("reason", sort=False)
    ]
