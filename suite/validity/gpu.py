"""Did the cards run as they should: not slowed down, at steady and equal clocks, alone, without errors?

All of it rests on what the `nvml` monitor sampled of the cards that the run used; without that, no question arises.
Never run here on real cards: the limits are choices, stated beside each answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfscale.suite.monitors import clocks
from tfscale.suite.monitors.series import Floats, Series, Window
from tfscale.suite.record import Check
from tfscale.suite.validity.base import Evidence

SLOWED_SHARE = 0.05
"""Share of the window for which a card may be slowed down."""
CLOCK_SPREAD, CLOCK_DIFFERENCE = 0.10, 0.05
"""Of the SM clock: from the 5th to the 95th percentile of one card, by its median; between the means of cards."""
LEAST_SAMPLES = 10


def throttling(evidence: Evidence) -> Iterator[Check]:
    """Hardware slowdown, heat and power brake, by samples of the event reasons and by the thermal violation time.

    A software power cap is what a loaded card in a data centre shows, and slows no card more than its peers where all
    show it: its shares are evidence, and a difference is named.
    """
    series, used = _used(evidence)
    if series is None or not used:
        return
    window = evidence.window
    shares = {device: clocks.shares(series, device, window) for device in used}
    known = {device: found for device, found in shares.items() if found is not None}
    heat = {device: clocks.violation_share(series, device, "violation_thermal", window) for device in used}
    slowed = {
        device: max(*(known.get(device, {}).get(reason, 0.0) for reason in clocks.SLOWDOWNS), heat[device] or 0.0)
        for device in used
    }
    told: dict[str, Any] = {"shares": known, "thermal_violation": heat, "limit": SLOWED_SHARE}
    worst = max(used, key=lambda device: slowed[device])
    if slowed[worst] > SLOWED_SHARE:
        why = [reason for reason in clocks.SLOWDOWNS if known.get(worst, {}).get(reason, 0.0) > SLOWED_SHARE]
        yield Check(
            name="throttling",
            status="SUSPECT",
            detail=f"{worst} was slowed down for {slowed[worst]:.0%} of the window "
            f"({', '.join(why) or 'thermal violation time'}){_cap(known)}",
            evidence=told,
            advice="look at cooling, at the power supply and its cables, and at the other load of the chassis",
        )
        return
    blind = [device for device in used if device not in known]
    if blind:
        reason = _reason(series, blind[0], "clock_reasons")
        detail = f"whether {', '.join(blind)} was slowed down is unknown: {reason}"
        yield Check(name="throttling", status="UNKNOWN", detail=detail, evidence=told)
        return
    detail = f"no card was slowed down for more than {slowed[worst]:.1%} of the window{_cap(known)}"
    yield Check(name="throttling", status="VALID", detail=detail, evidence=told)


def clocks_steady(evidence: Evidence) -> Iterator[Check]:
    """The SM clock over the window, and between the cards."""
    series, used = _used(evidence)
    if series is None or not used:
        return
    found = {device: _inside(series, device, "clock_sm", evidence.window) for device in used}
    short = [device for device, values in found.items() if values.size < LEAST_SAMPLES]
    if short:
        reason = _reason(series, short[0], "clock_sm", found[short[0]].size)
        detail = f"whether the clock of {', '.join(short)} was steady is unknown: {reason}"
        yield Check(name="clocks_steady", status="UNKNOWN", detail=detail)
        return
    means = {device: float(values.mean()) for device, values in found.items()}
    spreads = {device: _spread(values) for device, values in found.items()}
    slowest, fastest = min(used, key=means.__getitem__), max(used, key=means.__getitem__)
    difference = 1 - means[slowest] / means[fastest] if means[fastest] > 0 else 0.0
    widest = max(used, key=spreads.__getitem__)
    unsteady, unequal = spreads[widest] > CLOCK_SPREAD, difference > CLOCK_DIFFERENCE
    parts = [f"the SM clock of {widest} spread by {spreads[widest]:.1%}"]
    if len(used) > 1:
        parts.append(f"{slowest} ran {difference:.1%} slower than {fastest}")
    yield Check(
        name="clocks_steady",
        status="SUSPECT" if unsteady or unequal else "VALID",
        detail=", ".join(parts),
        evidence={
            "mean_mhz": means,
            "spread": spreads,
            "difference": difference,
            "limits": {"spread": CLOCK_SPREAD, "difference": CLOCK_DIFFERENCE},
        },
        advice="look at power limits, application clocks and cooling, or lock the clocks (nvidia-smi -lgc)"
        if unsteady or unequal
        else None,
    )


def foreign_gpu_process(evidence: Evidence) -> Iterator[Check]:
    """Processes on the cards of the run that are none of its ranks.

    In a container NVML may list other process ids than the ranks have, or none at all (nvidia-docker issue 1483): where
    none of the run's own is listed, nobody can say whose the others are.
    """
    series, used = _used(evidence)
    if series is None or not used:
        return
    listed: Mapping[str, Sequence[Mapping[str, Any]]] = evidence.monitors["nvml"].facts.get("processes") or {}
    of_used = [{"device": device, **process} for device in used for process in listed.get(device, ())]
    others = [process for process in of_used if not process["own"]]
    if len(others) == len(of_used):
        seen = f"only {len(others)} other process ids" if others else "no process"
        detail = (
            f"NVML lists {seen} on {', '.join(used)} and none of this run's: in a container, the ids are those of the "
            "host; whether others used the cards is unknown"
        )
        if not others and (missing := [d for d in used if _reason(series, d, "processes", None)]):
            detail = f"the processes on {missing[0]} are unknown: {_reason(series, missing[0], 'processes', None)}"
        yield Check(name="foreign_gpu_process", status="UNKNOWN", detail=detail, evidence={"processes": of_used})
        return
    named = ", ".join(dict.fromkeys(f"{process['name'] or 'process'} ({process['pid']})" for process in others))
    yield Check(
        name="foreign_gpu_process",
        status="SUSPECT" if others else "VALID",
        detail=f"others were on the cards of this run: {named}" if others else "the run had its cards to itself",
        evidence={"processes": others},
        advice="end them, or give the run cards of its own, and run the case again" if others else None,
    )


def ecc(evidence: Evidence) -> Iterator[Check]:
    """Memory errors that could not be corrected, from the first to the last sample."""
    series, used = _used(evidence)
    if series is None or not used:
        return
    grown: dict[str, float] = {}
    for device in used:
        values = _inside(series, device, "ecc_uncorrected", None)
        if values.size:
            grown[device] = float(np.maximum(np.diff(values), 0).sum())
    failed = {device: count for device, count in grown.items() if count > 0}
    blind = [device for device in used if device not in grown]
    if failed:
        named = ", ".join(f"{device}: {count:.0f}" for device, count in failed.items())
        yield Check(
            name="ecc",
            status="SUSPECT",
            detail=f"memory errors that could not be corrected while the case ran ({named})",
            evidence={"uncorrected": grown},
            advice="drain the node and have the card examined (nvidia-smi -q -d ECC,PAGE_RETIREMENT,ROW_REMAPPER)",
        )
    elif blind:
        detail = f"memory errors of {', '.join(blind)} are unknown: {_reason(series, blind[0], 'ecc_uncorrected')}"
        yield Check(name="ecc", status="UNKNOWN", detail=detail, evidence={"uncorrected": grown})
    else:
        detail = "no memory error that could not be corrected"
        yield Check(name="ecc", status="VALID", detail=detail, evidence={"uncorrected": grown})


def xid(evidence: Evidence) -> Iterator[Check]:
    """Errors that the driver reported, and cards that fell off the bus."""
    series, used = _used(evidence)
    if series is None or not used:
        return
    facts = evidence.monitors["nvml"].facts
    lost = {device: reason for device, reason in (facts.get("lost") or {}).items() if device in used}
    events = [event for event in facts.get("xid") or () if event["device"] in used]
    reasons = {d: reason for d, reason in (facts.get("xid_reasons") or {}).items() if d in used}
    parts = [f"{device}: {reason}" for device, reason in lost.items()]
    parts += list(dict.fromkeys(f"{event['device']}: Xid {event['code']}" for event in events))
    if parts:
        yield Check(
            name="xid",
            status="SUSPECT",
            detail=f"the driver reported errors of cards of this run: {'; '.join(parts)}",
            evidence={"events": events, "lost": lost},
            advice="look the code up in NVIDIA's list of Xid errors, and at the kernel's log (dmesg)",
        )
    elif reasons or facts.get("xid") is None:
        why = next(iter(reasons.values()), "the monitor did not come to ask")
        yield Check(name="xid", status="UNKNOWN", detail=f"whether the driver reported errors is unknown: {why}")
    else:
        yield Check(name="xid", status="VALID", detail="the driver reported no error of a card of this run")


def _used(evidence: Evidence) -> tuple[Series | None, list[str]]:
    """The samples of the cards, and the names of the run's; nothing where there is no card or no sample."""
    series, seen = evidence.series.get("nvml"), evidence.monitors.get("nvml")
    if series is None or seen is None or not series.t_ns.size:
        return None, []
    sampled = list(dict.fromkeys(column.device for column in series.columns if column.device))
    used = seen.facts.get("used")
    return series, sampled if used is None else [device for device in sampled if device in used]


def _inside(series: Series, device: str, name: str, window: Window | None) -> Floats:
    """Values of a column within a window, or all of them; empty where it has none."""
    for number, column in enumerate(series.columns):
        if column.device == device and column.name == name and column.state == "ok":
            t_ns, values = series.of(number)
            if window is None:
                return values
            return values[(t_ns >= window.t0_ns) & (t_ns <= window.t1_ns)]
    return np.empty(0)


def _reason(series: Series, device: str, name: str, count: int | None = 0) -> str:
    """Why a column has no values; "" where it has, which only a `count` of None asks."""
    for column in series.columns:
        if column.device == device and column.name == name and column.state != "ok":
            return column.reason or column.state
    return "" if count is None else f"there are only {count} samples of it within the window"


def _spread(values: Floats) -> float:
    low, middle, high = np.percentile(values, [5, 50, 95])
    return float((high - low) / middle) if middle > 0 else 0.0


def _cap(shares: Mapping[str, Mapping[str, float]]) -> str:
    """What the software power cap did, where it did anything."""
    caps = {device: found[clocks.POWER_CAP] for device, found in shares.items()}
    if not any(caps.values()):
        return ""
    least, most = min(caps, key=caps.__getitem__), max(caps, key=caps.__getitem__)
    between = f", {least} for {caps[least]:.0%}" if least != most else ""
    return f"; {most} kept to its power limit for {caps[most]:.0%} of it{between}"
