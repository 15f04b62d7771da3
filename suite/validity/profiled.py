"""What the profiled pass lost, and how much of it nobody could name."""

from collections.abc import Iterator, Mapping
from typing import Any

from tfscale.suite.record import Check, Record

MOSTLY = 0.5
"""Share of unclassified device time above which a breakdown says little about the case."""


def profiler_lost(record: Record, trace: Mapping[str, Any]) -> Iterator[Check]:
    """Dropped events make every part too small; an error of the profiler may hide a whole device."""
    hosts = trace["honesty"]["hosts"]
    dropped = sum(host["dropped_events"] or 0 for host in hosts)
    errors = [f"{host['host']}: {error}" for host in hosts for error in host["errors"]]
    lost = [f"{dropped:,} events were dropped"] if dropped else []
    lost += [f"the profiler reports {errors[0]}"] if errors else []
    events = sum(host["events"] for host in hosts)
    yield Check(
        name="profiler_lost",
        status="SUSPECT" if lost else "VALID",
        detail="; ".join(lost) or f"{events:,} events, and the profiler reports no loss",
        evidence={"events": events, "dropped": dropped, "errors": errors},
        advice="profile fewer steps (profile.steps)" if lost else None,
    )


def classified(record: Record, trace: Mapping[str, Any]) -> Iterator[Check]:
    """A breakdown made mostly of events that no pattern knows is a guess."""
    share = trace["honesty"]["unclassified_share"]
    if share is None:
        yield Check(name="classified", status="UNKNOWN", detail="no device was busy in the profiled pass")
        return
    names = [name["name"] for host in trace["honesty"]["hosts"] for name in host["unclassified"]["names"]]
    yield Check(
        name="classified",
        status="SUSPECT" if share > MOSTLY else "VALID",
        detail=f"{share:.1%} of the device time has names that no pattern knows"
        + (f", first {names[0]}" if names else ""),
        evidence={"share": share, "names": names},
        advice="tell us the names, or add them to suite/profiling/names.yaml" if share > MOSTLY else None,
    )


def distortion(record: Record, trace: Mapping[str, Any]) -> Iterator[Check]:
    """The profiler slows what it watches. The timed numbers come from another launch, so only the parts are in doubt."""
    parts = record.breakdown
    ratio = parts["profiled_over_timed"] if parts else None
    if parts is None or ratio is None:
        return
    doubt = ": the parts, not the timed numbers, are in doubt" if parts["distorted"] else ""
    detail = f"a profiled step takes {ratio:.2f} times as long as a timed one{doubt}"
    yield Check(name="distortion", status="VALID", detail=detail, evidence={"profiled_over_timed": ratio})


def tensor_cores(record: Record, trace: Mapping[str, Any]) -> Iterator[Check]:
    """On a GPU, kernels whose names tell of tensor cores show that reduced precision really ran in them.

    Names as in NVIDIA's libraries (`s16816gemm`, `hmma`, `tensorop`); never run on a GPU here.
    """
    gpus = [d for h in trace["hosts"] for d in h["devices"] if "GPU" in d["device"]]
    if record.case["precision"] == "float32" or not gpus:
        return
    names = [operation["name"] for device in gpus for operation in device["operations"]]
    shown = [name for name in names if any(mark in name.lower() for mark in TENSOR_CORE_NAMES)]
    yield Check(
        name="tensor_cores",
        status="VALID" if shown else "UNKNOWN",
        detail=f"tensor-core kernels ran: {shown[0]}"
        if shown
        else "no kernel among the longest is named after tensor cores",
        evidence={"kernels": shown[:5]},
    )


TENSOR_CORE_NAMES = ("16816", "1688", "884gemm", "hmma", "imma", "tensorop", "wgmma", "gmma", "xmma", "tcgen05")
