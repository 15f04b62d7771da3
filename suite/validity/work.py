"""Was the work done that was planned: samples, replicas, aggregated gradients, one trace, the same on every rank?"""

from collections.abc import Iterator

import numpy as np

from tfscale.suite.record import Check
from tfscale.suite.validity.base import Evidence


def samples(evidence: Evidence) -> Iterator[Check]:
    """Counted samples a step = planned batch; with the record's invariant, throughput x step time = planned batch."""
    case, counted = evidence.case, evidence.timing.global_batch
    planned = case.step_batch if evidence.strategy.synchronous else case.micro_batch * case.micro_batches
    yield Check(
        name="samples",
        status="VALID" if np.isclose(counted, planned, rtol=1e-9) else "INVALID",
        detail=f"{counted:g} samples a step were counted, {planned} were planned",
        evidence={"counted": counted, "planned": planned},
    )


def replicas(evidence: Evidence) -> Iterator[Check]:
    """Every rank trains with the planned replicas: a worker that joined nobody trains alone, and fast."""
    planned = evidence.strategy.replicas(evidence.case)
    for rank in evidence.ranks:
        got = rank.result.replicas
        yield Check(
            name="replicas",
            status="VALID" if got == planned else "INVALID",
            detail=f"rank {rank.plan.rank} trains with {got} replicas, {planned} were planned",
            evidence={"rank": rank.plan.rank, "replicas": got, "planned": planned},
        )


def self_check(evidence: Evidence) -> Iterator[Check]:
    """Gradients really were aggregated: skipped communication looks like perfect scaling."""
    for rank in evidence.ranks:
        found = rank.result.self_check
        yield Check(
            name="self_check",
            status="INVALID" if found.passed is False else "VALID",
            detail=f"rank {rank.plan.rank}: {found.detail}",
            evidence={"rank": rank.plan.rank, "passed": found.passed},
        )


def retraces(evidence: Evidence) -> Iterator[Check]:
    """A step that is traced again while it runs is not the step that was compiled."""
    most = max(rank.result.counts.get("retraces", 0) for rank in evidence.ranks)
    if most:
        yield Check(
            name="retraces",
            status="SUSPECT",
            detail=f"the step was traced again {most} times while it ran",
            evidence={"retraces": most},
            advice="give every batch the same shape and dtype, and pass no Python numbers into the step",
        )


def same_on_all_ranks(evidence: Evidence) -> Iterator[Check]:
    """Ranks that differ in precision, XLA, library or update do not run one experiment."""
    told = [rank.result.effective for rank in evidence.ranks]
    differing = {
        name: [other.get(name) for other in told] for name in told[0] if len({repr(t.get(name)) for t in told}) > 1
    }
    if differing:
        yield Check(
            name="same_on_all_ranks",
            status="SUSPECT",
            detail=f"ranks differ in what they really used: {', '.join(differing)}",
            evidence=differing,
            advice="give all ranks the same packages, variables and kind of device",
        )


def after_the_result(evidence: Evidence) -> Iterator[Check]:
    """What happened once the results were on disk is told, and changes nothing."""
    for note in evidence.notes:
        yield Check(name="after_the_result", status="VALID", detail=note)
