"""Weak scaling on this machine's cores: two ranks on one core each, against one device on one core."""

import json
import tempfile
from pathlib import Path
from typing import Any

import processes
import stats
from rows import Part, Row, from_quantity

from tfscale.suite import environment
from tfscale.suite.record import Quantity
from tfscale.suite.timing.trials import paired_ratio

CASES = {"bert": ("tiny", 8), "recommender": ("micro", 256)}
METHOD = (
    "multi_worker_mirrored on 2 ranks of 1 core each. one_device has 1 core too and leaves the other idle; `independent` "
    "runs 2 replicas on 1 core each at once without exchange. Efficiency is throughput over twice that of one device; "
    "from one device to `independent` is contention for memory and host, from there on distribution. Rounds run all cases "
    "one after the other in fresh processes; Student's interval over rounds (log ratios). Above 1 is not clipped."
)


def run(quick: bool) -> Part:
    cores = environment.host_cores()
    if len(cores) < 2:
        raise ValueError("weak scaling on 2 ranks needs 2 cores")
    rounds = [one_round(quick) for _ in range(2 if quick else 6)]
    rows = [row for name in CASES for row in efficiency(name, rounds)]
    return Part("weak", "Weak scaling, 2 ranks on 1 core each", METHOD, rows)


def suite(quick: bool) -> dict[str, Any]:
    budget = 2 if quick else 10
    placed = [("independent", 2), ("multi_worker_mirrored", 2)]
    presets = {name: [preset] for name, (preset, _) in CASES.items()}
    batches = {name: [batch] for name, (_, batch) in CASES.items()}
    others = [
        {"workload": name, "preset": preset, "per_replica_batch": batch, "strategy": strategy, "devices": devices}
        for name, (preset, batch) in CASES.items()
        for strategy, devices in placed
    ]
    return {
        "name": "weak-two-cores",
        "matrix": {
            "workload": list(CASES),
            "preset": presets,
            "per_replica_batch": batches,
            "strategy": ["one_device"],
            "devices": [1],
        },
        "include": others,
        "measure": {"budget_s": budget, "min_s": budget / 2, "trials": 1, "tail_steps": 0, "target": 0.005},
        "cluster": {"launcher": "local", "accelerator": "cpu", "cores_per_device": 1},
    }


def one_round(quick: bool) -> dict[tuple[str, str], float]:
    """Samples/s of every case, by (workload, strategy). Raises RuntimeError where one has no result."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weak.yaml"
        path.write_text(json.dumps(suite(quick)))  # JSON is YAML
        document = processes.tfscale("run", str(path), "--results", str(Path(folder) / "results"))
    if document["failed"]:
        raise RuntimeError(f"weak scaling: {document['failed'][0]['reason']}")
    return {
        (record["case"]["workload"], record["case"]["strategy"]): record["quantities"]["throughput"]["value"]
        for record in document["records"]
    }


def efficiency(name: str, rounds: list[dict[tuple[str, str], float]]) -> list[Row]:
    def series(strategy: str) -> list[float]:
        return [found[name, strategy] for found in rounds]

    one = series("one_device")
    doubled = [2 * value for value in one]
    apart, together = series("independent"), series("multi_worker_mirrored")
    preset, batch = CASES[name]
    head = f"{name} {preset}, {batch} a replica"

    def row(what: str, ratio: Quantity, note: str) -> Row:
        over = "; above 1" if (ratio.value or 0) > 1 else ""
        return from_quantity(f"{head}: {what}", ratio, n=len(rounds), note=note + over)

    return [
        from_quantity(f"{head}: one_device", stats.mean(one, "samples/s"), note="1 core"),
        from_quantity(
            f"{head}: multi_worker_mirrored x2", stats.mean(together, "samples/s"), note="2 ranks, 1 core each"
        ),
        row("efficiency against one_device", paired_ratio(doubled, together), "2 cores against 1"),
        row("efficiency against independent", paired_ratio(apart, together), "2 cores against 2: distribution"),
        row("independent against one_device", paired_ratio(doubled, apart), "2 cores against 1: contention"),
    ]
