"""Counters beside the steps: what was sampled in the timed window of each case, as small multiples and in numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfscale.reports import frames, text
from tfscale.reports.figures import multiples
from tfscale.suite.monitors.align import block_means
from tfscale.suite.monitors.series import Series
from tfscale.suite.record import Monitored, Quantity, Record, Run
from tfscale.suite.timing.series import series_of_ranks

Samples = Mapping[str, Series]
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Chart:
    """How one counter is drawn: `scale` takes its unit to the one in the title."""

    monitor: str
    column: str
    title: str
    scale: float = 1.0
    floor: bool = True
    most: int = 8
    """Devices drawn, those with the most of it."""


CHARTS = (
    Chart("nvml", "power", "power, W"),
    Chart("nvml", "clock_sm", "SM clock, MHz", 1e-6, floor=False),
    Chart("nvml", "temperature", "temperature, °C", floor=False),
    Chart("nvml", "utilisation_gpu", "GPU busy, %", 100.0),
    Chart("rdma", "tx_bytes", "RDMA sent, GB/s", 1e-9, most=4),
    Chart("host", "own_cpu", "CPU of the run, cores"),
    Chart("host", "foreign_cpu", "CPU of others, cores"),
    Chart("host", "memory_available", "memory available, GB", 1e-9, floor=False),
    Chart("network", "tx_bytes", "network sent, MB/s", 1e-6, most=4),
)


@dataclass(frozen=True)
class Card:
    """The counters of one case, of its first trial."""

    case_id: str
    title: str
    figure: str
    note: str
    legend: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table:
    """One monitor of one case, in numbers; `silent` says why it has none."""

    case_id: str
    title: str
    monitor: str
    silent: str
    rows: tuple[tuple[str, str, str, str, str], ...]
    """(device, quantity, value, kind, statistic)."""
    missing: tuple[tuple[str, str], ...]
    """(columns, reason): what could not be sampled."""


def cards(run: Run, blocks: Mapping[str, Arrays], series: Mapping[str, Samples]) -> list[Card]:
    """One card for each case that has samples."""
    return [
        _card(record, blocks[record.id], series[record.id])
        for record in frames.first_trials(run.records)
        if record.id in series and record.id in blocks
    ]


def _card(record: Record, arrays: Arrays, samples: Samples) -> Card:
    rank = series_of_ranks(arrays)[0]
    start = record.steady.start
    ends: NDArray[np.int64] = np.concatenate([rank.start_ns[start : start + 1], rank.end_ns[start:]])
    boundaries = ends - ends[0]
    steps = np.concatenate([[0], np.cumsum(rank.steps[start:])]).astype(np.float64)
    rows = [row for chart in CHARTS if (row := _row(chart, samples, boundaries)) is not None]
    title = frames.case_of(record.case).title
    if not rows:
        return Card(record.case_id, title, "", "Nothing that is drawn here was sampled.", ())
    label = f"Counters over the steps of {title}: {', '.join(row.title for row in rows)}"
    devices = list(dict.fromkeys(device for row in rows for device, _ in row.lines if device))
    legend = tuple(zip(devices, multiples.COLOURS, strict=False)) if len(devices) > 1 else ()
    note = f"{text.plural(int(steps[-1]), 'step')} from the start of the steady window; one value a block."
    return Card(record.case_id, title, multiples.small_multiples(steps, rows, label), note, legend)


def _row(chart: Chart, samples: Samples, boundaries: NDArray[np.int64]) -> multiples.Row | None:
    found = samples.get(chart.monitor)
    if found is None:
        return None
    lines = [
        (column.device or "", block_means(found, number, boundaries) * chart.scale)
        for number, column in enumerate(found.columns)
        if column.name == chart.column
    ]
    lines = [(device, values) for device, values in lines if np.isfinite(values).any()]
    if not lines:
        return None
    lines.sort(key=lambda line: -float(np.nanmean(line[1])))
    return multiples.Row(chart.title, sorted(lines[: chart.most], key=lambda line: line[0]), chart.floor)


def tables(run: Run) -> list[Table]:
    """Everything that was sampled in the first trial of each case, in numbers."""
    return [
        _table(record, monitor, seen)
        for record in frames.first_trials(run.records)
        for monitor, seen in record.monitors.items()
    ]


def _table(record: Record, monitor: str, seen: Monitored) -> Table:
    rows = [
        (
            device or "host",
            name.replace("_", " "),
            _value(frames.checked(quantity, name)),
            quantity.kind,
            quantity.statistic,
        )
        for device, quantities in seen.summary.items()
        for name, quantity in quantities.items()
    ]
    by_reason: dict[str, list[str]] = {}
    for key, why in seen.unsampled.items():
        by_reason.setdefault(f"{why.state.replace('_', ' ')}: {why.reason}", []).append(key)
    missing = tuple((_listed(keys), reason) for reason, keys in by_reason.items())
    title = frames.case_of(record.case).title
    return Table(record.case_id, title, monitor, seen.reason or "", tuple(rows), missing)


def _value(quantity: Quantity) -> str:
    if quantity.value is None:
        return f"{text.NONE} {quantity.reason}"
    return text.quantity(quantity.value, quantity.unit)


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(keys[:6]) + (f" and {len(keys) - 6} more" if len(keys) > 6 else "")
