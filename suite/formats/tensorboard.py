"""TensorBoard scalars: a folder of event files, one a trial of the newest run.

An event file is TFRecords (length, masked CRC-32C, bytes, masked CRC-32C) of Event messages; field numbers of
tensorboard/compat/proto/event.proto and summary.proto. No TensorFlow is needed to write one.
"""

import datetime
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.crc32c import crc32c_rows, masked
from tfscale.suite.descriptors import DOUBLE, FLOAT, INT64, STRING, Messages
from tfscale.suite.formats.base import Format, Results, Written
from tfscale.suite.record import Record
from tfscale.suite.timing.series import series_of_ranks

ENDING = ".tfscale"
_EVENTS = Messages(
    "tfscale.events",
    {
        "Event": {
            "wall_time": (1, DOUBLE, False),
            "step": (2, INT64, False),
            "file_version": (3, STRING, False),
            "summary": (5, "Summary", False),
        },
        "Summary": {"value": (1, "Value", True)},
        "Value": {"tag": (1, STRING, False), "simple_value": (2, FLOAT, False), "metadata": (9, "Metadata", False)},
        "Metadata": {"plugin_data": (1, "Plugin", False), "summary_description": (3, STRING, False)},
        "Plugin": {"plugin_name": (1, STRING, False)},
    },
)


def write(results: Results) -> Written:
    """RUN/WORKLOAD-PRESET-STRATEGY-DEVICES-CASE/TRIAL/events.out.tfevents...: its blocks by step, then its quantities."""
    loaded = results.run
    files = {}
    without = 0
    for record in loaded.run.records:
        axes = [str(record.case[a]) for a in ("workload", "preset", "strategy", "devices") if record.case.get(a)]
        folder = "".join(c if c.isalnum() or c in "-_" else "_" for c in "-".join([*axes, record.case_id]))
        begun = datetime.datetime.fromisoformat(record.created).timestamp()
        name = f"{record.run}/{folder}/{record.trial}/events.out.tfevents.{int(begun)}{ENDING}"
        blocks = loaded.blocks.get(record.id)
        without += blocks is None
        files[name] = _file(record, begun, blocks)
    lost = (f"block times of {without} trials, whose blocks could not be read",) if without else ()
    return Written(files, loaded.run.records, lost)


def _file(record: Record, begun: float, blocks: Mapping[str, NDArray[Any]] | None) -> bytes:
    events = [_EVENTS.of("Event")(wall_time=begun, file_version="brain.Event:2")]
    steps = record.counts.get("steps", 0)
    if blocks is not None:
        for rank, series in enumerate(series_of_ranks(blocks)):
            left = series.elapsed_s - np.cumsum(series.seconds)
            ends = zip(np.cumsum(series.steps).tolist(), series.step_seconds.tolist(), left.tolist(), strict=True)
            for step, seconds, before in ends:
                events.append(
                    _scalar(begun - before, step, f"blocks/step_time/rank{rank}", seconds, "s, measured, block mean")
                )
    for name, quantity in record.quantities.items():
        if quantity.value is not None:
            said = f"{quantity.unit}, {quantity.kind}, {quantity.statistic}"
            events.append(_scalar(begun, steps, f"quantities/{name}", quantity.value, said))
    return framed([event.SerializeToString() for event in events])


def _scalar(wall_time: float, step: int, tag: str, value: float, said: str) -> Any:
    event = _EVENTS.of("Event")(wall_time=wall_time, step=step)
    metadata = event.summary.value.add(tag=tag, simple_value=value).metadata
    metadata.summary_description, metadata.plugin_data.plugin_name = said, "scalars"
    return event


def framed(bodies: Sequence[bytes]) -> bytes:
    """A file of TFRecords."""
    lengths = [struct.pack("<Q", len(body)) for body in bodies]
    parts = zip(lengths, _checksums(lengths), bodies, _checksums(bodies), strict=True)
    return b"".join(part for record in parts for part in record)


def _checksums(texts: Sequence[bytes]) -> list[bytes]:
    """Masked CRC-32C of each, all of one length at once."""
    found = np.empty(len(texts), "<u4")
    sizes = np.array([len(text) for text in texts])
    for size in np.unique(sizes):
        places = np.flatnonzero(sizes == size).tolist()
        rows = np.frombuffer(b"".join(texts[place] for place in places), np.uint8).reshape(len(places), -1)
        found[places] = masked(crc32c_rows(rows))
    return [checksum.tobytes() for checksum in found]


FORMAT = Format(
    "TensorBoard scalars, a folder of event files, one a trial of the newest run",
    write=write,
    loses=("all but 32 bits of each number", "intervals", "unknown quantities and their reasons", "phases",
           "checks and verdicts", "monitors", "failures", "hparams"),
    ending=ENDING,
)  # fmt: skip
