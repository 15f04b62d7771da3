"""Launches that fail for what the machines did, not the case: tried again a few times, and every attempt is kept."""

from collections.abc import Callable

from tfscale.suite.blame import Blame
from tfscale.suite.launch import Launched
from tfscale.suite.record import Failure, FaultClass, Retry
from tfscale.suite.spec import Case
from tfscale.suite.watch import Outcome

INFRASTRUCTURE: tuple[FaultClass, ...] = ("never_started", "join_timeout", "lost_rank")
"""Failures that a machine, its scheduler or its network can cause under a case that is good.

Not `hung` and `first_step_timeout`: a deadlock and an endless compilation are findings about the case. `port_in_use` has
retries of its own, with other ports. The rest says what the case needs and does not get.
"""
_LOG_LINES = 10


def launches(
    launch: Callable[[], Launched], retries: int, on_retry: Callable[[Retry], None]
) -> tuple[Launched, tuple[Retry, ...]]:
    """Launch until it is done, fails for good or has been retried `retries` times; and the attempts before the last."""
    failed: list[Retry] = []
    while True:
        launched = launch()
        blame = launched.outcome.failure
        if blame is None or blame.classification not in INFRASTRUCTURE or len(failed) == retries:
            return launched, tuple(failed)
        failed.append(retry_of(blame, launched.outcome))
        on_retry(failed[-1])


def retry_of(blame: Blame, outcome: Outcome) -> Retry:
    """What is kept of an attempt that is tried again."""
    tail = "\n".join(outcome.log_tail.splitlines()[-_LOG_LINES:])
    return Retry(classification=blame.classification, reason=blame.reason, rank=blame.rank, log_tail=tail)


def failure_of(case: Case, trial: int, outcome: Outcome, reproduce: str, retries: tuple[Retry, ...] = ()) -> Failure:
    """The document of a launch that failed."""
    blame = outcome.failure
    assert blame is not None, "only a failed launch has a failure"
    return Failure(
        case=case.model_dump(mode="json"),
        case_id=case.id,
        trial=trial,
        classification=blame.classification,
        reason=blame.reason,
        rank=blame.rank,
        log_tail=outcome.log_tail,
        stacks=outcome.stacks,
        reproduce=reproduce,
        retries=retries,
    )
