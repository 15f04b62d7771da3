"""Collectives: what each rank did in each, joined over devices and hosts, with their bandwidth.

A rank here is one device that takes part. Sizes come from TensorFlow's `buffer_size`, else the HLO shape, else the
message size that PyTorch writes; unknown is None and never 0. Bandwidths are those of nccl-tests
(https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md): S is the total size for all-gather and
reduce-scatter, decimal units.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tfscale.suite.profiling import hlo
from tfscale.suite.profiling.analysed import Analysed, DeviceAnswer, HostAnswer
from tfscale.suite.profiling.classes import Kind
from tfscale.suite.profiling.table import Ints

BUS_FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
}
ANONYMOUS = " call "
"""Between a rank and the number of its call, where several replicas share a process and come in any order."""
ROOTED = ("broadcast", "reduce")
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


@dataclass(frozen=True)
class Collective:
    """One collective over the ranks that the traces show."""

    type: str
    step: int | None
    size: int | None
    members: int
    """Ranks that take part: the group's size where it is told, else those that were seen."""
    start_ps: int
    duration_ps: int
    duration_from: str
    arrivals_ps: dict[str, int]
    waits_ps: dict[str, int] | None
    """By rank, until the last arrival; None where clocks do not allow a comparison."""
    last: str | None
    """The last to arrive; None where it is not resolved."""
    algorithm_bandwidth: float | None
    """Bytes per second."""
    bus_bandwidth: float | None


def algorithm_bandwidth(size: int | None, duration_ps: int) -> float | None:
    return None if size is None or duration_ps <= 0 else size / (duration_ps * 1e-12)


def bus_bandwidth(kind: str, size: int | None, duration_ps: int, members: int) -> float | None:
    """Algorithm bandwidth times the factor of nccl-tests; None for a type without one, or an unknown size."""
    bandwidth = algorithm_bandwidth(size, duration_ps)
    factor = BUS_FACTORS.get(kind)
    return None if bandwidth is None or factor is None or members < 1 else bandwidth * factor(members)


def type_of(text: str) -> str:
    """The type of a collective from whatever names it."""
    return next((kind for kind, pattern in _TYPES if re.search(pattern, text, re.IGNORECASE)), "unknown")


def collectives(analysed: Analysed, bound_ps: int | None) -> list[Collective]:
    """All collectives in time order. `bound_ps` is the error of clocks between hosts, None where it is not known."""
    joined: dict[tuple[Any, ...], list[Call]] = defaultdict(list)
    for number, host in enumerate(analysed.hosts):
        for device in host.devices:
            for call in _calls(number, host, device, rank_name(analysed, host, device)):
                joined[call.key].append(call)
    found = [_joined(part, analysed.aligned, bound_ps) for calls in joined.values() for part in _occurrences(calls)]
    return sorted(found, key=lambda c: (c.start_ps, c.type))


def rank_name(analysed: Analysed, host: HostAnswer, device: DeviceAnswer) -> str:
    """What a device is called among the ranks: by its host too, where there are several."""
    label = device.device.name.removeprefix("/device:").removeprefix("/host:")
    return f"{host.trace.host} {label}" if len(analysed.hosts) > 1 else label


def _calls(number: int, host: HostAnswer, device: DeviceAnswer, rank: str) -> Iterator[Call]:
    trace, rows = host.trace, device.device.rows[device.device.kind == Kind.COMMUNICATION]
    if not rows.size:
        return
    rows = rows[np.argsort(trace.start_ps[rows], kind="stable")]
    told = {"cpu": _of_tensorflow, "gpu": _of_kernels, "tpu": _of_hlo}[device.device.platform](host, device, rows)
    steps = step_of(device, trace.start_ps[rows])
    for i, (kind, size, group, key, node) in enumerate(told):
        if kind is None:
            continue
        start, length = int(trace.start_ps[rows[i]]), int(trace.duration_ps[rows[i]])
        begin = start + host.shift_ps
        yield Call(rank, node, number, kind, size, group, key, steps[i], begin, begin + length)


def step_of(device: DeviceAnswer, times: Ints) -> list[int | None]:
    """The number of the step in which each time lies."""
    return [int(device.steps.number[at]) if at >= 0 else None for at in device.steps.locate(times)]


Told = tuple[str | None, int | None, int | None, tuple[Any, ...], str]
"""Type (None: no collective), bytes, group size, key, and the node of the graph where the trace names it."""


def _of_tensorflow(host: HostAnswer, device: DeviceAnswer, rows: Ints) -> Iterator[Told]:
    """Host collectives carry group_key and instance_key, the same on every host; several replicas share a process."""
    trace = host.trace
    stats = trace.stats.of(rows, ("group_key", "instance_key", "buffer_size", "group_size"))
    names = trace.names_of(rows)
    for i, name in enumerate(names):
        group, instance, size, members = (stats[key][i] for key in stats)
        if "ollective" not in name or group is None:
            yield None, None, None, (), ""
            continue
        yield type_of(name), _integer(size), _integer(members), ("tf", group, instance), name.partition(":")[0]


def _of_kernels(host: HostAnswer, device: DeviceAnswer, rows: Ints) -> Iterator[Told]:
    """NCCL kernels: n-th call of a group, because the same calls come in the same order on every rank of it."""
    trace = host.trace
    keys = ("buffer_size", "collective_type", "Collective name", "In msg nelems", "Out msg nelems", "dtype",
            "Group size", "Process Group Name")  # fmt: skip
    stats = trace.stats.of(rows, keys)
    count: dict[tuple[Any, ...], int] = defaultdict(int)
    for i, name in enumerate(trace.names_of(rows)):
        size, told, called, read, written, dtype, members, group = (stats[key][i] for key in keys)
        kind = type_of(str(told or called or name))
        if size is None and dtype in _DTYPE_BYTES:
            elements = max(_integer(read) or 0, _integer(written) or 0)
            size = elements * _DTYPE_BYTES[str(dtype)] or None
        place = (group or "default", kind)
        count[place] += 1
        yield kind, _integer(size), _integer(members), ("nccl", *place, count[place]), ""


def _of_hlo(host: HostAnswer, device: DeviceAnswer, rows: Ints) -> Iterator[Told]:
    """HLO collectives: n-th run of the same instruction, within the replica group that the instruction names."""
    trace = host.trace
    count: dict[str, int] = defaultdict(int)
    ordinal = int(device.device.name.rpartition(":")[2])
    for number in trace.name[rows].tolist():
        name = trace.names[number]
        category = str(name.stats.get("hlo_category", name.name))
        count[name.name] += 1
        groups = hlo.replica_groups(name.name)
        mine = next((group for group in groups if ordinal in group), None) if groups else None
        size = hlo.shape_bytes(str(name.stats.get("shape_with_layout", "")) or name.name)
        key = ("hlo", name.stats.get("program_id", ""), name.name, count[name.name], mine)
        yield type_of(category), size, len(mine) if mine else None, key, ""


def _occurrences(calls: list[Call]) -> Iterator[list[Call]]:
    """Calls of one key in groups of one call a rank: replicas of one process share a rank's name, and keys may recur."""
    calls = sorted(calls, key=lambda call: call.start_ps)
    by_rank: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_rank[call.rank].append(call)
    if all(len(mine) == 1 for mine in by_rank.values()):
        yield calls
        return
    cluster: list[Call] = []
    reach = 0
    for call in calls:
        if cluster and call.start_ps >= reach:
            yield _numbered(cluster)
            cluster = []
        cluster.append(call)
        reach = max(reach, call.end_ps) if len(cluster) > 1 else call.end_ps
    if cluster:
        yield _numbered(cluster)


def _numbered(calls: list[Call]) -> list[Call]:
    """Replicas of one process told apart by their nodes in the graph, which are made replica by replica; where two calls
    come from one node, by the order in which they came, which says nothing about who they are."""
    by_rank: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_rank[call.rank].append(call)
    numbered = []
    for rank, mine in by_rank.items():
        nodes = sorted({call.node for call in mine}, key=lambda node: (len(node), node))
        for count, call in enumerate(mine, 1):
            if len(mine) == 1:
                numbered.append(call)
            elif len(nodes) == len(mine):
                numbered.append(replace(call, rank=f"{rank} replica {nodes.index(call.node)}"))
            else:
                numbered.append(replace(call, rank=f"{rank}{ANONYMOUS}{count}"))
    return numbered


def _joined(calls: list[Call], aligned: bool, bound_ps: int | None) -> Collective:
    first = min(calls, key=lambda call: call.start_ps)
    several_hosts = len({call.host for call in calls}) > 1
    comparable = not several_hosts or (aligned and bound_ps is not None)
    slack = (bound_ps or 0) if several_hosts else 0
    sizes = {call.size for call in calls if call.size is not None}
    told = next((call.group_size for call in calls if call.group_size), None)
    arrivals = {call.rank: call.start_ps for call in calls}
    latest = max(arrivals.values())
    lengths = [call.end_ps - call.start_ps for call in calls]
    if comparable and len(calls) > 1 and (through := max(call.end_ps for call in calls) - latest) > 0:
        duration, how = through, "last end - last arrival"
    elif first.type in ROOTED:
        duration, how = max(lengths), "longest over ranks"
    else:
        duration, how = min(lengths), "shortest over ranks"
    members = max(told or 0, len(calls))
    size = max(sizes) if sizes else None
    ordered = sorted(arrivals.values())
    told_apart = not any(ANONYMOUS in rank for rank in arrivals)
    resolved = comparable and told_apart and len(ordered) > 1 and ordered[-1] - ordered[-2] > slack
    return Collective(
        type=first.type,
        step=first.step,
        size=size,
        members=members,
        start_ps=first.start_ps,
        duration_ps=duration,
        duration_from=how,
        arrivals_ps=arrivals,
        waits_ps={rank: latest - at for rank, at in arrivals.items()} if comparable else None,
        last=max(arrivals, key=lambda rank: arrivals[rank]) if resolved else None,
        algorithm_bandwidth=algorithm_bandwidth(size, duration),
        bus_bandwidth=bus_bandwidth(first.type, size, duration, members),
    )


def _integer(value: Any) -> int | None:
    found = int(value) if isinstance(value, int) or re.fullmatch(r"[0-9]{1,18}", str(value)) else None
    return found if found is not None and 0 <= found < 2**62 else None
