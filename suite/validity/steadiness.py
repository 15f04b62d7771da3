"""Was a steady state reached?"""

from collections.abc import Iterator

from tfscale.suite.record import Check
from tfscale.suite.validity.base import Evidence


def steady_state(evidence: Evidence) -> Iterator[Check]:
    """The last level of the block series holds half of the measured time and enough blocks."""
    timing = evidence.timing
    yield Check(
        name="steady_state",
        status="SUSPECT" if timing.problem else "VALID",
        detail=timing.problem or f"{timing.steady.classification}, {timing.window_blocks} steady blocks",
        evidence={"class": timing.steady.classification, "steady_blocks": timing.window_blocks},
        advice="give the case more time (measure.budget_s)" if timing.problem else None,
    )
