"""An analysed trace of one profiled pass as the `breakdown` of a record: means over devices and steps."""

from fractions import Fraction
from typing import Any

from tfscale.suite.profiling.answer import Answer
from tfscale.suite.profiling.breakdown import PARTS, TOTALS
from tfscale.suite.profiling.scopes import exchange_times
from tfscale.suite.profiling.waits import exposed_wait

DISTORTED = 1.1
"""Profiled / timed step above which the parts, not the timed numbers, are in doubt."""


def breakdown(found: Answer, timed_step_s: float | None, optimizer_steps: int = 1) -> dict[str, Any] | None:
    """Mean parts of a step in integer picoseconds, or None where no step was traced.

    `timed_step_s`: mean step time of the timed pass; `optimizer_steps`: steps that one marked step holds.
    """
    spans, parts, totals, waits = _gather(found)
    if not spans:
        return None
    count = len(spans) * optimizer_steps
    span = round(Fraction(sum(spans), count))
    mean = {name: int(Fraction(sum(values), count)) for name, values in parts.items() if name != "idle"}
    mean["idle"] = span - sum(mean.values())
    wait = None if waits is None else int(Fraction(sum(waits), count))
    ratio = span / (timed_step_s * 1e12) if timed_step_s else None
    honesty = found.document["honesty"]
    return {
        "span_ps": span,
        "parts": {name: mean[name] for name in PARTS},
        "totals": {name: round(Fraction(sum(values), count)) for name, values in totals.items()},
        "exposed_wait_ps": wait,
        "exposed_wait_reason": None if wait is not None else "not every rank's arrival is known on one clock",
        "exchange": exchange_times(found.analysed, optimizer_steps),
        "kind": "measured",
        "statistic": "mean over devices and steps of the profiled pass",
        "devices": sum(len(host.devices) for host in found.analysed.hosts),
        "steps": len(spans),
        "step_source": ", ".join(dict.fromkeys(host.step_source for host in found.analysed.hosts)),
        "profiled_over_timed": ratio,
        "distorted": ratio is not None and ratio > DISTORTED,
        "unclassified_share": honesty["unclassified_share"],
        "stragglers": found.document["straggler_verdict"]["answer"],
    }


def _gather(found: Answer) -> tuple[list[int], dict[str, list[int]], dict[str, list[int]], list[int] | None]:
    """Spans, parts, totals and exposed waits of every step of every device; a device without marked steps has none."""
    spans: list[int] = []
    parts: dict[str, list[int]] = {name: [] for name in PARTS}
    totals: dict[str, list[int]] = {name: [] for name in TOTALS}
    waits: list[int] = []
    comparable = all(one.waits_ps is not None for one in found.collectives)
    for host in found.analysed.hosts:
        for device in host.devices:
            if device.steps.source == "whole window":
                continue
            for part in device.parts:
                spans.append(part.span_ps)
                for name in PARTS:
                    parts[name].append(part.parts[name])
                for name in TOTALS:
                    totals[name].append(part.totals[name])
            waits += exposed_wait(found.analysed, host, device, found.collectives)
    return spans, parts, totals, waits if comparable else None
