"""Records and results folders with stated speeds, for the tests of comparisons."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfscale.suite.record import Check, Kind, Level, Quantity, Record, Steady, Validity
from tfscale.suite.runfolder import RunFolder
from tfscale.suite.spec import Case

ENVIRONMENT: dict[str, Any] = {
    "host": "one",
    "cpu": {"model": "Processor 9000", "threads": 64, "usable": 64, "governor": "performance"},
    "memory_bytes": 100_000_000_000,
    "gpus": [],
    "cgroup": {"memory_bytes": "unlimited"},
    "driver": {"version": None},
    "packages": {"tensorflow-cpu": "2.21.0", "keras": "3.15.1"},
    "os": "Example Linux",
}


def case(**axes: Any) -> Case:
    named = {"workload": "vit", "preset": "micro", "strategy": "mirrored", "devices": 2, "per_replica_batch": 8}
    return Case(**{**named, **axes})


def environment(**changes: Any) -> dict[str, Any]:
    """ENVIRONMENT with other values, a dot in a name given as two underscores: `cpu__model="..."`."""
    made = copy.deepcopy(ENVIRONMENT)
    for name, value in changes.items():
        *path, last = name.split("__")
        place = made
        for part in path:
            place = place[part]
        place[last] = value
    return made


def gpus(name: str, count: int, memory: int = 80_000_000_000) -> list[dict[str, Any]]:
    return [{"index": index, "name": name, "memory_bytes": memory} for index in range(count)]


def record(
    of: Case,
    speed: float,
    trial: int = 0,
    *,
    run: str = "run",
    kind: Kind = "measured",
    joules: float | None = None,
    boundary: str = "sum over 2 devices, counter",
    checks: tuple[Check, ...] = (),
    effective: dict[str, Any] | None = None,
    loss: dict[str, Any] | None = None,
    facts: dict[str, Any] | None = None,
    sample: str = "image",
) -> Record:
    """A trial that took `speed` samples a second, on the environment `facts`."""
    step_s = of.step_batch / speed

    def known(value: float, unit: str, statistic: str = "mean", of_kind: Kind = kind) -> Quantity:
        return Quantity(value=value, unit=unit, kind=of_kind, statistic=statistic, n_samples=50)

    quantities = {
        "step_time": known(step_s, "s"),
        "throughput": known(speed, f"{sample}s/s"),
        "global_batch": known(of.step_batch, f"{sample}s", "counted"),
        "memory_peak_host": known(10e9, "bytes", "maximum over ranks"),
    }
    if joules is not None:
        quantities["energy_per_sample"] = known(joules, f"J/{sample}", boundary, "derived")
    return Record(
        id=f"{run}/{of.id}/{trial}",
        run=run,
        case_id=of.id,
        case=of.model_dump(mode="json"),
        trial=trial,
        created=f"2026-12-01T02:{trial:02d}:00+00:00",
        steady=Steady.model_validate(
            {"class": "flat", "levels": [Level(start=0, stop=50, mean=step_s)], "start": 0, "stop": 50}
        ),
        quantities=quantities,
        phases={},
        effective={"math": "float32", "xla": "none", "start": "forked", **(effective or {})},
        counts={"steps": 500, "ranks": of.devices},
        loss=loss or {"verdict": "falling", "steps": 500},
        validity=Validity.of(checks),
        environment=ENVIRONMENT if facts is None else facts,
        files={},
        reproduce="tfscale run suite.yaml",
    )


def trials(of: Case, speeds: Sequence[float], **more: Any) -> list[Record]:
    return [record(of, speed, number, **more) for number, speed in enumerate(speeds)]


def stored(results: Path, records: Sequence[Record]) -> Path:
    """A run folder under `results` that holds these records, made one after the other, under its own run id."""
    folder = RunFolder.create(results, "name: made\n", records[0].environment)
    for minute, one in enumerate(records):
        identity = {"run": folder.run, "id": f"{folder.run}/{one.case_id}/{one.trial}"}
        identity["created"] = f"2026-12-01T02:{minute:02d}:00+00:00"
        folder.write_record(one.model_copy(update=identity))
    return folder.path
