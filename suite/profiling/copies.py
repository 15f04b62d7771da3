"""Copies of a device: how many, how many bytes, how long, by what they are called."""

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfscale.suite.profiling.analysed import DeviceAnswer, HostAnswer
from tfscale.suite.profiling.classes import Kind
from tfscale.suite.profiling.intervals import union

_SIZE = re.compile(r"\bsize:([0-9]{1,18})\b")
_KEYS = ("memcpy_details", "bytes")


@dataclass(frozen=True)
class Copies:
    """Copies of one name on one device, over its whole window."""

    name: str
    number: int
    size: int | None
    """Bytes of all of them; None where the trace does not tell every one's."""
    busy_ps: int
    """Union of their time."""

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second of busy time."""
        return None if self.size is None or not self.busy_ps else self.size / (self.busy_ps * 1e-12)


def size_of(details: Any, count: Any) -> int | None:
    """Bytes of one copy: CUPTI's `kind_src:.. size:N dest:D async:A`, else a plain number."""
    if details is not None and (match := _SIZE.search(str(details))):
        return int(match[1])
    return int(count) if isinstance(count, int) and count >= 0 else None


def copies(host: HostAnswer, device: DeviceAnswer) -> list[Copies]:
    """The copies of a device by name, the longest first."""
    trace = host.trace
    rows = device.device.rows[device.device.kind == Kind.COPY]
    stats = trace.stats.of(rows, _KEYS)
    gathered: dict[str, list[int]] = defaultdict(list)
    for at, number in enumerate(trace.name[rows].tolist()):
        name = trace.names[number]
        gathered[str(name.stats.get("hlo_category") or name.name)].append(at)
    found = []
    for label, places in gathered.items():
        sizes = [size_of(stats["memcpy_details"][i], stats["bytes"][i]) for i in places]
        mine = rows[np.array(places, np.int64)]
        known = [size for size in sizes if size is not None]
        busy = union(trace.start_ps[mine], trace.end_ps[mine]).total
        found.append(Copies(label, len(places), sum(known) if len(known) == len(sizes) else None, busy))
    return sorted(found, key=lambda one: (-one.busy_ps, one.name))
