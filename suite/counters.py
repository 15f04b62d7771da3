"""Counters of a trial: from what the sampler wrote to what the record keeps, and the series beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.monitors.parquet import SERIES, read_parquet, write_parquet
from tfscale.suite.monitors.sampling import LINES
from tfscale.suite.monitors.series import Samples, Series, Window, read
from tfscale.suite.monitors.summary import summarise
from tfscale.suite.record import Monitored, Quantity, Record, unknown
from tfscale.suite.timing.series import BlockSeries


@dataclass(frozen=True)
class Counted:
    """What was sampled beside a trial, and the steady window that it is told of; empty where nothing was asked for."""

    window: Window
    monitors: Mapping[str, Monitored] = field(default_factory=dict)
    series: Mapping[str, Series] = field(default_factory=dict)


def count(folder: Path, wanted: Sequence[str], window: Window, reason: str | None) -> Counted:
    """Summaries over `window` of the monitors that were `wanted`. `reason`: why the sampler has nothing, or ended early.

    What cannot be read is a reason on the record: counters never cost a trial.
    """
    if not wanted:
        return Counted(window)
    samples = Samples()
    try:
        samples = read(folder / LINES)
    except OSError as error:
        reason = reason or f"what the sampler wrote cannot be read: {error}"
    return Counted(window, {name: summarise(samples, name, window, reason) for name in wanted}, samples.monitors)


def energy(counted: Counted, throughput: Quantity, sample: str) -> dict[str, Quantity]:
    """`energy` in J over the steady window and `energy_per_sample`, of the run's devices, else of the host's packages.

    The boundary stands in the statistic: devices (NVML) leave out the host, packages (RAPL) the devices and the rest.
    """
    parts, boundary = _energies(counted)
    statistic = f"sum over {boundary}"
    unit = f"J/{sample}"
    missing = next((part for part in parts if part.value is None), None)
    if not parts or missing is not None or throughput.value is None:
        reason = (missing.reason if missing else None) or throughput.reason if parts else boundary
        told = unknown("J", "measured", "sum", str(reason))
        return {"energy": told, "energy_per_sample": told.model_copy(update={"unit": unit, "kind": "derived"})}
    joules = sum(part.value or 0.0 for part in parts)
    samples = throughput.value * counted.window.seconds
    methods = ", ".join(dict.fromkeys(part.statistic for part in parts))
    total = parts[0].model_copy(update={"value": joules, "statistic": f"{statistic}, {methods}"})
    each = {"value": joules / samples, "unit": unit, "kind": "derived", "statistic": f"{total.statistic} / samples"}
    return {"energy": total, "energy_per_sample": total.model_copy(update=each)}


def _energies(counted: Counted) -> tuple[list[Quantity], str]:
    """The energies to add and what they are of; none, and why."""
    cards = counted.monitors.get("nvml")
    used = cards.facts.get("used") or [] if cards else []
    if cards and used:
        found = [cards.summary.get(device, {}).get("energy") for device in used]
        known = [
            part or unknown("J", "measured", "sum", _why(cards, device))
            for part, device in zip(found, used, strict=True)
        ]
        return known, f"{len(used)} devices"
    host = counted.monitors.get("host")
    packages = {
        device: quantities["energy"]
        for device, quantities in (host.summary if host else {}).items()
        if device and "/" not in device and "energy" in quantities
    }
    if packages:
        return list(packages.values()), f"{len(packages)} processor packages (RAPL)"
    missing = host.unsampled.get("energy") if host else None
    return [], missing.reason if missing else "no energy counter was sampled"


def _why(cards: Monitored, device: str) -> str:
    column = cards.unsampled.get(f"{device}/energy") or cards.unsampled.get(f"{device}/power")
    return f"{device}: {column.reason if column else 'no energy and no power was sampled'}"


def keep(folder: Path, counted: Counted, ranks: Sequence[BlockSeries], start: int) -> dict[str, str]:
    """Write the series beside the record, in place of the sampler's lines; the record's `files` of it.

    The step axis is that of the first rank's blocks from block `start` on.
    """
    if not counted.series:
        return {}
    blocks = ranks[0]
    ends: NDArray[np.int64] = np.concatenate([blocks.start_ns[start : start + 1], blocks.end_ns[start:]])
    try:
        write_parquet(folder / SERIES, counted.series, counted.window.t0_ns, ends, blocks.steps[start:])
    except OSError:  # the lines stay where they are; `kept` says so to whoever asks for the series
        return {"samples": LINES}
    (folder / LINES).unlink(missing_ok=True)
    return {"series": SERIES}


def kept(records: Sequence[Record], folders: Mapping[str, Path]) -> tuple[dict[str, dict[str, Series]], list[str]]:
    """Record id -> monitor -> its series, of the records that have any, and what could not be read.

    `folders`: record id -> the folder that its `files` are relative to.
    """
    found: dict[str, dict[str, Series]] = {}
    warnings = []
    for record in records:
        if "samples" in record.files:
            lines = folders[record.id] / record.files["samples"]
            warnings.append(f"{lines}: no {SERIES} could be written beside it; the samples are in these lines")
        if SERIES in record.files.values():
            path = folders[record.id] / SERIES
            try:
                found[record.id] = read_parquet(path)
            except (OSError, ValueError) as error:
                warnings.append(f"{path}: no counters ({error})")
    return found, warnings
