"""Did data travel the way that was asked for? NCCL's own log and the adapters' counters are the witnesses."""

from collections.abc import Iterator
from pathlib import Path

from tfscale.suite import transport
from tfscale.suite.nccl import traffic
from tfscale.suite.nccl.log import joined, parse
from tfscale.suite.nccl.verdict import verdict
from tfscale.suite.record import Check, CheckStatus
from tfscale.suite.validity.base import Evidence

_ADVICE = {
    "INVALID": "see the rank's nccl.log: NET/IB lines name the adapters found; NCCL_IB_HCA and NCCL_SOCKET_IFNAME choose",
    "SUSPECT": "see the rank's nccl.log for the channels concerned, and why NCCL chose another way for them",
}


def transported(evidence: Evidence) -> Iterator[Check]:
    """Asked where the plan made NCCL write its log, or the case's own `env` did."""
    paths = [
        Path(rank.plan.directory) / transport.LOG
        for rank in evidence.ranks
        if "NCCL_DEBUG_FILE" in rank.plan.environment
    ]
    if not paths:
        return
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file()]
    log = joined([parse(text) for text in texts])
    status, detail = verdict(evidence.case.transport, log)
    found = {"requested": evidence.case.transport, "logs": len(texts), **log.summary()}
    yield Check(name="transport", status=status, detail=detail, evidence=found, advice=_ADVICE.get(status))


def rdma_bytes(evidence: Evidence) -> Iterator[Check]:
    """Whether the RDMA adapters moved what an all-reduce of the gradients has to move; only between hosts."""
    case, seen = evidence.case, evidence.monitors.get("rdma")
    ports = {device: told["tx_bytes"] for device, told in seen.summary.items() if "tx_bytes" in told} if seen else {}
    if case.hosts == 1 or not ports or not evidence.strategy.synchronous:
        return
    size = evidence.ranks[0].result.counts.get("gradient_bytes", 0)
    unread = next((quantity for quantity in ports.values() if quantity.value is None), None)
    if unread is not None or not size:
        reason = unread.reason if unread else "the bytes of the gradients are not known"
        yield Check(name="rdma_bytes", status="UNKNOWN", detail=f"RDMA traffic cannot be judged: {reason}")
        return
    step = traffic.all_reduce(size, case.hosts, case.devices // case.hosts)
    where, detail = traffic.compare(sum(told.value or 0.0 for told in ports.values()), _steps(evidence), step)
    wants_rdma = case.transport in ("rdma", "gdr")
    worst: CheckStatus = "INVALID" if where == "below" else "SUSPECT"
    yield Check(
        name="rdma_bytes",
        status=worst if wants_rdma and where != "within" else "VALID",
        detail=detail,
        evidence={"sent_by_port": {device: told.value for device, told in ports.items()}, "gradient_bytes": size},
    )


def _steps(evidence: Evidence) -> int:
    """Steps of the steady window."""
    steady, series = evidence.timing.steady, evidence.ranks[0].series
    return int(series.steps[steady.start : steady.stop].sum())
