"""The pass `losses` of a rank: it trains and keeps the loss of every step. How long steps take does not matter here.

Who decides to stop tells the others by the control value that travels with the steps, as in the timed loop, so that all
ranks take the same steps whatever they see of the losses.
"""

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.analysis.convergence import hopeless, smoothed
from tfscale.suite.events import EventLog
from tfscale.suite.plan import Lengths
from tfscale.suite.rankfiles import LOSSES, write_arrays
from tfscale.suite.timed import Heart
from tfscale.suite.timing.protocol import Fetched, Pending, Runner
from tfscale.suite.timing.stopping import STOP

if TYPE_CHECKING:
    from tfscale.suite.training.job import Job


def losses_pass(job: "Job", events: EventLog, begun: Sequence[Fetched]) -> None:
    """Train as the plan's lengths say and write `losses.npz`; `begun` are the steps that were taken before.

    Raises ValueError when the plan has no lengths, or the case several steps a call.
    """
    plan = job.plan
    if plan.lengths is None or plan.case.steps_per_call != 1:
        raise ValueError("a pass that keeps losses needs its lengths, and one step a call")
    asynchronous = job.session.averaged < job.session.replicas
    events.phase("steady")
    steps = train(
        job.runner,
        plan.lengths,
        begun,
        decides=plan.decides,
        ahead=2 * job.session.replicas if asynchronous else 1,
        on_step=Heart(events).beat,
    )
    events.phase("timed", steps=len(steps))
    write_arrays(Path(plan.directory) / LOSSES, arrays(steps))
    events.phase("written")


def train(
    runner: Runner,
    lengths: Lengths,
    begun: Sequence[Fetched],
    *,
    decides: bool,
    ahead: int = 1,
    on_step: Callable[[Fetched], None] = lambda fetched: None,
) -> list[Fetched]:
    """All steps, `begun` included. `ahead`: steps that are dispatched before the oldest of them is waited for."""
    steps = list(begun)
    waiting: deque[Pending] = deque()
    dispatched, control, ended = len(steps), 0.0, False
    while True:
        while not ended and dispatched < lengths.most and len(waiting) <= ahead:
            waiting.append(runner.dispatch(1, control))
            dispatched += 1
        if not waiting:
            return steps
        steps.append(waiting.popleft().fetch())
        on_step(steps[-1])
        ended = ended or steps[-1].control < STOP / 2  # a sum over ranks, maybe of float32
        if decides and enough([step.loss for step in steps], lengths):
            control = STOP


def enough(losses: Sequence[float], lengths: Lengths) -> bool:
    """Whether the smoothed loss has come to the one to stop at, or never will."""
    last = losses[-lengths.smoothing :]
    if lengths.until is None or len(last) < lengths.smoothing:
        return False
    return bool(smoothed(last, lengths.smoothing)[-1] <= lengths.until) or hopeless(last)


def arrays(steps: Sequence[Fetched]) -> dict[str, NDArray[Any]]:
    """loss (steps,): of each step; staleness (steps,), where it was counted: NaN for the steps where it was not."""
    counted = [step.staleness for step in steps]
    known = any(count is not None for count in counted)
    staleness = [np.nan if count is None else count for count in counted]
    return {
        "loss": np.array([step.loss for step in steps], dtype=np.float64),
        **({"staleness": np.array(staleness, dtype=np.float64)} if known else {}),
    }
