"""Did data travel the way that was asked for? NCCL's own log is the witness."""

from collections.abc import Iterator
from pathlib import Path

from tfscale.suite import transport
from tfscale.suite.nccl.log import joined, parse
from tfscale.suite.nccl.verdict import verdict
from tfscale.suite.record import Check
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
