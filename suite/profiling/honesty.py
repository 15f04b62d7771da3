"""What stands behind an answer: what was found and missing, what was dropped, how much could not be classified."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfscale.suite.profiling.analysed import Analysed, DeviceAnswer, HostAnswer
from tfscale.suite.profiling.classes import Kind
from tfscale.suite.profiling.clocks import Clock
from tfscale.suite.profiling.intervals import covered, union

UNCLASSIFIED_LIMIT = 0.05
"""Share of unclassified device time above which the command says so first."""
TOP_NAMES = 5
_GPU_WORK = re.compile(
    r"^(Memcpy[HD]2[HD]|cuLaunchKernel|cudaLaunch|hipLaunch|GpuLaunch)|/device:GPU|gpu_private", re.I
)
_DROPPED = re.compile(r"dropped ([0-9]{1,18})\b|\b([0-9]{1,18}) (?:events )?(?:were )?dropped", re.IGNORECASE)
CUPTI_HINT = (
    "the host used GPUs, and no GPU has events: CUPTI was missing or not allowed. Load the driver with "
    "NVreg_RestrictProfilingToAdminUsers=0 (options nvidia in /etc/modprobe.d) or run with CAP_SYS_ADMIN "
    "(--cap-add=SYS_ADMIN in a container), and see that libcupti is on the library path"
)


def report(analysed: Analysed, notes: Sequence[str], clock: Clock) -> dict[str, Any]:
    """The honesty block of a document."""
    hosts = [_host(host) for host in analysed.hosts]
    shares = [host["unclassified"]["share"] for host in hosts if host["unclassified"]["share"] is not None]
    return {
        "notes": [*notes, *(warning for host in hosts for warning in host["findings"])],
        "clock": {"source": clock.source, "bound_ps": clock.bound_ps},
        "unclassified_share": max(shares, default=None),
        "hosts": hosts,
    }


def _host(host: HostAnswer) -> dict[str, Any]:
    trace = host.trace
    facts = trace.facts
    planes = list(facts.get("planes", trace.planes()))
    found = [device.device.name for device in host.devices]
    environment = facts.get("task_environment", {})
    start, stop = environment.get("profile_start_time"), environment.get("profile_stop_time")
    told = isinstance(start, int) and isinstance(stop, int) and stop >= start
    length = int(stop) - int(start) if told else None
    return {
        "host": trace.host,
        "files": list(trace.files),
        "format": trace.kind,
        "events": int(trace.start_ps.size),
        "planes": planes,
        "empty_planes": [plane for plane in planes if plane not in trace.planes() and not plane.startswith("Task")],
        "devices": found,
        "capture_ns": length,
        "capture_reason": None if length is not None else "the file does not tell when the profile began and ended",
        "dropped_events": _dropped(facts),
        "errors": list(facts.get("errors", ())),
        "warnings": list(facts.get("warnings", ())),
        "versions": _versions(facts),
        "unclassified": _unclassified(host),
        "findings": _findings(host),
    }


def _findings(host: HostAnswer) -> list[str]:
    trace, found = host.trace, []
    gpu_planes = [plane for plane in trace.facts.get("planes", ()) if plane.startswith("/device:GPU")]
    ran = any(device.device.platform == "gpu" for device in host.devices)
    if not ran and (gpu_planes or any(_GPU_WORK.search(name.name) for name in trace.names)):
        found.append(f"{trace.host}: {CUPTI_HINT}")
    read = {device.device.name for device in host.devices}
    filled = {line.plane: None for line in trace.lines if len(line) and line.plane.startswith("/device:")}
    found += [f"{trace.host}: {plane} has events, and nothing here reads them" for plane in filled if plane not in read]
    for plane in gpu_planes if ran else ():
        if plane not in read and plane not in filled:
            found.append(f"{trace.host}: {plane} has no events: nothing ran there, or nothing of it was captured")
    found += [f"{trace.host}: the profiler reports: {error}" for error in trace.facts.get("errors", ())]
    found += [f"{trace.host}: the profiler warns: {warning}" for warning in trace.facts.get("warnings", ())]
    found += [f"{trace.host}: {note}" for note in trace.facts.get("notes", ())]
    dropped = _dropped(trace.facts)
    if dropped:
        found.append(f"{trace.host}: the profiler dropped {dropped} events, so every part may be too small")
    sources = {device.steps.source for device in host.devices}
    if sources == {"whole window"}:
        found.append(f"{trace.host}: no step is marked in any way, so the whole window is one step")
    for device in host.devices:
        found += [f"{trace.host} {device.device.name}: {note}" for note in device.steps.notes]
    if not host.devices:
        found.append(f"{trace.host}: no device with events ({len(trace.lines)} lines)")
    return found


def _dropped(facts: Any) -> int | None:
    """Events that the profiler says it lost, None where it does not say."""
    told: list[int] = []
    for stats in facts.get("plane_stats", {}).values():
        counts = [str(value) for key, value in stats.items() if "dropped" in key.lower()]
        told += [int(count) for count in counts if re.fullmatch("[0-9]{1,18}", count)]
    for text in (*facts.get("errors", ()), *facts.get("warnings", ())):
        told += [int(match[1] or match[2]) for match in _DROPPED.finditer(text)]
    return sum(told) if told else None


def _versions(facts: Any) -> dict[str, str]:
    found = {}
    for stats in facts.get("plane_stats", {}).values():
        found.update({key: str(value) for key, value in stats.items() if "version" in key.lower()})
    distributed = facts.get("distributed", {})
    if isinstance(distributed, dict) and "nccl_version" in distributed:
        found["nccl_version"] = str(distributed["nccl_version"])
    return found


def _unclassified(host: HostAnswer) -> dict[str, Any]:
    """Share of the devices' busy time that no pattern explains, with its top names."""
    busy, unknown = 0, 0
    names: dict[str, int] = {}
    for device in host.devices:
        rows = device.device.rows[device.device.kind == Kind.UNKNOWN]
        spans = union(host.trace.start_ps[rows], host.trace.end_ps[rows])
        unknown += spans.total
        busy += _busy(device)
        numbers, inverse = np.unique(host.trace.name[rows], return_inverse=True)
        lengths = np.zeros(numbers.size, np.int64)
        np.add.at(lengths, inverse, host.trace.duration_ps[rows])
        for number, length in zip(numbers.tolist(), lengths.tolist(), strict=True):
            name = host.trace.names[number].name
            names[name] = names.get(name, 0) + length
    top = sorted(names, key=lambda name: (-names[name], name))[:TOP_NAMES]
    return {
        "share": unknown / busy if busy else None,
        "reason": None if busy else "no device was busy",
        "names": [{"name": name, "total_ps": names[name]} for name in top],
    }


def _busy(device: DeviceAnswer) -> int:
    start, end = device.device.window
    spans = (device.exclusive.parts[part] for part in ("compute", "exposed_communication", "exposed_copy"))
    return sum(int(covered(part, [start], [end])[0]) for part in spans)
