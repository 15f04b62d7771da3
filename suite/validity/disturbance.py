"""Was somebody else using the machine, or was it slowed: other processes, the hypervisor, quotas, swapping?"""

from collections.abc import Iterator
from typing import Any

from tfscale.suite.record import Check, Monitored, Quantity
from tfscale.suite.validity.base import Evidence

FOREIGN_CORES, FOREIGN_SHARE = 0.25, 0.02
"""Cores that other processes may take: a quarter of one, or this share of all that may be used, whichever is more."""
STEAL_SHARE = 0.05
THROTTLED_SHARE = 0.01
SWAP_PAGES_PER_S = 250.0
"""Pages of 4 KiB, a megabyte a second: less is the kernel tidying up."""


NEIGHBOURS_TOLD = 3


def neighbours(evidence: Evidence) -> Iterator[Check]:
    """Cases of the same run that ran at the same time, as `cluster.beside` allows; nothing to say where none did."""
    met = list(evidence.neighbours)
    if not met:
        return
    more = f" and {len(met) - NEIGHBOURS_TOLD} more" if len(met) > NEIGHBOURS_TOLD else ""
    yield Check(
        name="neighbours",
        status="SUSPECT",
        detail=f"another case of this run ran beside it: {'; '.join(met[:NEIGHBOURS_TOLD])}{more}",
        evidence={"cases": met},
        advice="run it again without cluster.beside: neighbours share memory bandwidth, power, clocks and the network",
    )


def foreign_cpu(evidence: Evidence) -> Iterator[Check]:
    """Processes of neither the run nor the suite that used the CPUs during the timed window, the busiest named."""
    taken = _host(evidence, "foreign_cpu_mean")
    if taken is None:
        return
    if taken.value is None:
        yield _unknown("foreign_cpu", "what other processes used", taken)
        return
    usable = float(evidence.environment.get("cpu", {}).get("usable") or 1)
    limit = max(FOREIGN_CORES, FOREIGN_SHARE * usable)
    facts = evidence.monitors["host"].facts
    named = [f"{process['name']} ({process['pid']})" for process in facts.get("foreign") or ()]
    busiest = f", most by {', '.join(named[:3])}" if named else ""
    detail = f"processes of others used {taken.value:.2f} of {usable:g} cores{busiest}"
    if not facts.get("all_processes_visible", True):
        detail += "; some processes are hidden from here"
    suspect = taken.value > limit
    yield Check(
        name="foreign_cpu",
        status="SUSPECT" if suspect else "VALID",
        detail=detail,
        evidence={"cores": taken.value, "limit": limit, "processes": facts.get("foreign") or []},
        advice="end them, or keep them off the cores of the ranks, and run the case again" if suspect else None,
    )


def steal(evidence: Evidence) -> Iterator[Check]:
    """Time that the hypervisor gave to other machines while this one wanted it."""
    yield from _share(
        evidence,
        "steal",
        "cpu_steal_rate",
        STEAL_SHARE,
        cores=float(evidence.environment.get("cpu", {}).get("usable") or 1),
        what="the hypervisor took {:.1%} of the CPU time away",
        advice="measure on a machine that is not shared, or with dedicated cores",
    )


def quota(evidence: Evidence) -> Iterator[Check]:
    """Time for which a CPU quota of the control group held the processes back."""
    yield from _share(
        evidence,
        "cpu_quota",
        "cgroup_throttled_rate",
        THROTTLED_SHARE,
        cores=1.0,
        what="the CPU quota of the control group held processes back for {:.1%} of the time",
        advice="raise the container's CPU limit, or give it whole cores",
    )


def swapping(evidence: Evidence) -> Iterator[Check]:
    """Memory that did not fit."""
    rates = [_host(evidence, name) for name in ("swap_in_rate", "swap_out_rate")]
    known = [rate for rate in rates if rate is not None]
    if not known:
        return
    if missing := next((rate for rate in known if rate.value is None), None):
        yield _unknown("swapping", "whether memory was swapped", missing)
        return
    pages = sum(rate.value or 0.0 for rate in known)
    suspect = pages > SWAP_PAGES_PER_S
    yield Check(
        name="swapping",
        status="SUSPECT" if suspect else "VALID",
        detail=f"{pages:.0f} pages a second were swapped",
        evidence={"pages_per_s": pages},
        advice="make the batch or the tables smaller, or give the machine more memory" if suspect else None,
    )


def counters(evidence: Evidence) -> Iterator[Check]:
    """A monitor that was asked for and saw nothing leaves its checks unanswered, which is said."""
    silent = {name: seen.reason for name, seen in evidence.monitors.items() if seen.reason}
    early = {n: seen.facts["ended_early"] for n, seen in evidence.monitors.items() if "ended_early" in seen.facts}
    cards = evidence.monitors.get("nvml")
    if cards and evidence.plan.accelerator == "gpu" and not cards.summary and cards.unsampled:
        silent["nvml"] = next(iter(cards.unsampled.values())).reason
    for name, reason in {**silent, **early}.items():
        yield Check(name=f"counters_{name}", status="UNKNOWN", detail=f"{name}: {reason}")


def _share(
    evidence: Evidence, name: str, quantity: str, limit: float, *, cores: float, what: str, advice: str
) -> Iterator[Check]:
    found = _host(evidence, quantity)
    if found is None:
        return
    if found.value is None:
        yield _unknown(name, quantity, found)
        return
    share = found.value / cores
    told: dict[str, Any] = {"share": share, "limit": limit}
    suspect = share > limit
    yield Check(
        name=name,
        status="SUSPECT" if suspect else "VALID",
        detail=what.format(share),
        evidence=told,
        advice=advice if suspect else None,
    )


def _host(evidence: Evidence, quantity: str) -> Quantity | None:
    """A quantity of the host as a whole, None where nobody sampled it."""
    seen: Monitored | None = evidence.monitors.get("host")
    return seen.summary.get("", {}).get(quantity) if seen else None


def _unknown(name: str, what: str, quantity: Quantity) -> Check:
    return Check(name=name, status="UNKNOWN", detail=f"{what} is unknown: {quantity.reason}")
