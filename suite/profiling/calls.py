"""What each rank did in each collective, as its trace tells it: type, bytes, the key that joins it with the others'.

A rank here is one device that takes part. Sizes come from TensorFlow's `buffer_size`, else the HLO shape, else the
message size that PyTorch writes; unknown is None and never 0.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tfscale.suite.profiling import hlo
from tfscale.suite.profiling.analysed import Analysed, DeviceAnswer, HostAnswer
from tfscale.suite.profiling.classes import Kind
from tfscale.suite.profiling.runs import runs_of
from tfscale.suite.profiling.table import Ints

TENSORFLOW, NCCL, HLO = "tf", "nccl", "hlo"
"""What wrote a collective: the first member of its key."""
_TYPES = (
    ("reduce_scatter", r"reduce_?-?scatter"),
    ("all_reduce", r"all_?-?reduce|CollectiveReduceV\d|:CollectiveReduce$|cross_device_reduce"),
    ("all_gather", r"all_?-?gather|CollectiveGather"),
    ("all_to_all", r"all_?-?to_?-?all"),
    ("broadcast", r"broadcast|bcast"),
    ("send_receive", r"send|recv|permute"),
    ("reduce", r"reduce"),
)
_DTYPE_BYTES = {
    "Float": 4, "Double": 8, "Half": 2, "BFloat16": 2, "Int": 4, "Long": 8, "Short": 2, "Byte": 1, "Char": 1, "Bool": 1,
    "Float8_e4m3fn": 1, "Float8_e5m2": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One rank's part in a collective; times on the common axis, picoseconds."""

    rank: str
    node: str
    host: int
    type: str
    size: int | None
    """Bytes."""
    group_size: int | None
    key: tuple[Any, ...]
    step: int | None
    start_ps: int
    end_ps: int


class _Told(NamedTuple):
    """What one event tells of a collective; `type` None: it is none, or not its end."""

    type: str | None = None
    size: int | None = None
    group_size: int | None = None
    key: tuple[Any, ...] = ()
    node: str = ""
    """Of the graph, where the trace names it."""
    begin_ps: int | None = None
    """Where the collective began with an earlier event; on the host's own axis."""


def type_of(text: str) -> str:
    """The type of a collective from whatever names it."""
    return next((kind for kind, pattern in _TYPES if re.search(pattern, text, re.IGNORECASE)), "unknown")


def calls_of(analysed: Analysed) -> list[Call]:
    """Every rank's part in every collective, host by host."""
    jobs = _jobs(analysed)
    return [
        call
        for number, host in enumerate(analysed.hosts)
        for device in host.devices
        for call in _calls(analysed, number, device, jobs[number])
    ]


def _jobs(analysed: Analysed) -> list[int]:
    """How many hosts before each say that they are the same rank: two files of one rank are of different jobs."""
    seen: Counter[int] = Counter()
    found = []
    for host in analysed.hosts:
        info = host.trace.facts.get("distributed", {})
        rank = info.get("rank") if isinstance(info, dict) else None
        found.append(seen[rank] if isinstance(rank, int) else 0)
        seen.update([rank] if isinstance(rank, int) else ())
    return found


def rank_name(analysed: Analysed, host: HostAnswer, device: DeviceAnswer) -> str:
    """What a device is called among the ranks: by its host too, where there are several."""
    label = device.device.name.removeprefix("/device:").removeprefix("/host:")
    return f"{host.trace.host} {label}" if len(analysed.hosts) > 1 else label


def _calls(analysed: Analysed, number: int, device: DeviceAnswer, job: int) -> Iterator[Call]:
    host = analysed.hosts[number]
    trace, rows = host.trace, device.device.rows[device.device.kind == Kind.COMMUNICATION]
    if not rows.size:
        return
    rows = rows[np.argsort(trace.start_ps[rows], kind="stable")]
    told = {"cpu": _of_tensorflow, "gpu": _of_kernels, "tpu": _of_hlo}[device.device.platform](
        analysed, number, device, rows
    )
    rank, steps = rank_name(analysed, host, device), step_of(device, trace.start_ps[rows])
    for i, one in enumerate(told):
        if one.type is None:
            continue
        start, end = int(trace.start_ps[rows[i]]), int(trace.end_ps[rows[i]])
        begin = (start if one.begin_ps is None else one.begin_ps) + host.shift_ps
        key = (*one.key, job)
        yield Call(
            rank, one.node, number, one.type, one.size, one.group_size, key, steps[i], begin, end + host.shift_ps
        )


def step_of(device: DeviceAnswer, times: Ints) -> list[int | None]:
    """The number of the step in which each time lies."""
    return [int(device.steps.number[at]) if at >= 0 else None for at in device.steps.locate(times)]


def _of_tensorflow(analysed: Analysed, number: int, device: DeviceAnswer, rows: Ints) -> Iterator[_Told]:
    """Host collectives carry group_key and instance_key, the same on every host; several replicas share a process."""
    trace = analysed.hosts[number].trace
    stats = trace.stats.of(rows, ("group_key", "instance_key", "buffer_size", "group_size"))
    for i, name in enumerate(trace.names_of(rows)):
        group, instance, size, members = (stats[key][i] for key in stats)
        if "ollective" not in name or group is None:
            yield _Told()
            continue
        node = name.partition(":")[0]
        yield _Told(type_of(name), _integer(size), _integer(members), (TENSORFLOW, group, instance), node)


def _of_kernels(analysed: Analysed, number: int, device: DeviceAnswer, rows: Ints) -> Iterator[_Told]:
    """NCCL kernels: n-th call of a group, because the same calls come in the same order on every rank of it."""
    trace = analysed.hosts[number].trace
    keys = ("buffer_size", "collective_type", "Collective name", "In msg nelems", "Out msg nelems", "dtype",
            "Group size", "Process Group Name")  # fmt: skip
    stats = trace.stats.of(rows, keys)
    count: Counter[tuple[Any, ...]] = Counter()
    for i, name in enumerate(trace.names_of(rows)):
        size, told, called, read, written, dtype, members, group = (stats[key][i] for key in keys)
        kind = type_of(str(told or called or name))
        if size is None and dtype in _DTYPE_BYTES:
            elements = max(_integer(read) or 0, _integer(written) or 0)
            size = elements * _DTYPE_BYTES[str(dtype)] or None
        place = (group or "default", kind)
        count[place] += 1
        yield _Told(kind, _integer(size), _integer(members), (NCCL, *place, count[place]))


def _of_hlo(analysed: Analysed, number: int, device: DeviceAnswer, rows: Ints) -> Iterator[_Told]:
    """HLO collectives: the run of the module by its id where ids are the same on all devices, and the n-th time of the
    instruction in it; else the n-th of all. Joined within the replica group that the instruction names.

    An asynchronous one lasts from its start's begin to its done's end. Replica groups count devices over all hosts and
    a trace counts its own, so where there are several groups and hosts, nothing is joined over hosts.
    """
    trace = analysed.hosts[number].trace
    ordinal = int(device.device.name.rpartition(":")[2])
    runs = runs_of(trace, device.device.name).of(trace, trace.start_ps[rows]) if analysed.shared_ids else rows * 0 - 1
    count: Counter[tuple[Any, ...]] = Counter()
    started: dict[str, tuple[int, str]] = {}
    for row, run in zip(rows.tolist(), runs.tolist(), strict=True):
        name = trace.names[trace.name[row]]
        text, begin = name.name, None
        if hlo.is_start(text):
            started[hlo.instruction(text)] = (int(trace.start_ps[row]), text)
            yield _Told()
            continue
        if hlo.is_done(text):
            found = started.pop(hlo.started_by(text), None)
            if found is None:  # it began before the capture, so how long it took is not known
                yield _Told()
                continue
            begin, text = found
        kind = type_of(str(name.stats.get("hlo_category", text)))
        groups = hlo.replica_groups(text)
        mine = next((group for group in groups if ordinal in group), None) if groups else None
        size = hlo.shape_bytes(str(name.stats.get("shape_with_layout", "")) or name.name)
        if kind == "reduce_scatter" and size is not None:  # the shape is that of one rank's part
            size = size * len(mine) if mine else None
        apart = number if groups and len(groups) > 1 and len(analysed.hosts) > 1 else None
        place = (str(name.stats.get("program_id", "")), hlo.instruction(name.name), run)
        count[place] += 1
        yield _Told(kind, size, len(mine) if mine else None, (HLO, *place, count[place], mine, apart), "", begin)


def _integer(value: Any) -> int | None:
    found = int(value) if isinstance(value, int) or re.fullmatch(r"[0-9]{1,18}", str(value)) else None
    return found if found is not None and 0 <= found < 2**62 else None
