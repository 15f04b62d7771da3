"""The RDMA fabric in doctor's answer: what is judged, and what is for the reader to judge."""

from collections.abc import Iterator
from typing import Any

from tfscale.suite.doctor.findings import Answer, Finding
from tfscale.suite.fabric.examine import examine
from tfscale.suite.record import CheckStatus
from tfscale.suite.sources.base import Sources

_ANSWERS: dict[CheckStatus, Answer] = {"VALID": "works", "UNKNOWN": "unknown", "SUSPECT": "fails", "INVALID": "fails"}


def fabric(sources: Sources) -> Iterator[Finding]:
    """One finding a check, one for each port, for peer memory and for distances; on a host without RDMA, that."""
    found = examine(sources)
    if not found.checks:
        yield _shown("rdma", "this host shows no RDMA adapter; gradients travel over TCP", {})
    for check in found.checks:
        yield Finding(
            topic="limits" if check.name == "memlock" else "fabric",
            name=check.name.removeprefix("fabric_"),
            answer=_ANSWERS[check.status],
            basis="measured",
            detail=check.detail,
            fix=check.advice,
            evidence=check.evidence,
        )
    for port, facts in found.shown.get("ports", {}).items():
        yield _shown(f"port {port}", _port(facts), facts)
    if not found.shown:
        return
    memory, distance = found.shown["peer_memory"], found.shown["distance"]
    module = memory["module"]
    told = (
        f"{module} is loaded" if module else f"none of {', '.join(memory['looked_for'])} is loaded; DMA-BUF needs none"
    )
    yield _shown("GPUDirect module", told, memory)
    if distance is not None:
        rows = "; ".join(f"{gpu}: {_row(row)}" for gpu, row in distance["links"].items())
        yield _shown("GPU to adapter", f"{rows} (by {distance['source']})", distance)


def _port(facts: dict[str, Any]) -> str:
    kinds = list(dict.fromkeys(str(gid["type"]) for gid in facts["gids"]))
    parts = [facts["link_layer"], facts["rate"], facts["state"], f"GIDs {', '.join(kinds)}" if kinds else None]
    return ", ".join(str(part) for part in parts if part) or "the driver tells nothing of it"


def _row(row: dict[str, str | None]) -> str:
    return ", ".join(f"{nic} {how or 'unknown'}" for nic, how in row.items()) or "no adapter"


def _shown(name: str, detail: str, evidence: dict[str, Any]) -> Finding:
    return Finding(topic="fabric", name=name, answer="shown", basis="derived", detail=detail, evidence=evidence)
