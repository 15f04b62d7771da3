"""What the block timer sees of a train step, so that it can be tested on doubles of asynchronous devices."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Fetched:
    """Values on the host after the device finished the step they belong to; counts run from the start of training."""

    step: int
    """Completed optimiser steps of the whole job (asynchronous strategies: of any worker)."""
    samples: int
    """Samples consumed by the whole job so far, counted in the ranks from the batches themselves."""
    loss: float
    """Mean loss over replicas of the last step."""
    skipped: int
    """Steps whose update was skipped so far (loss scaling)."""
    control: float
    """Sum over ranks of the `control` values given with that step: how one rank's decision reaches all at one step."""
    staleness: float | None = None
    """Updates of others between this step's first read and its own update; None where nobody counts them."""


class Pending(Protocol):
    """A dispatched group of steps. `fetch` blocks until the last of them is complete on the device."""

    def fetch(self) -> Fetched: ...


class Runner(Protocol):
    """Dispatches train steps and returns at once; the device may still be busy."""

    def dispatch(self, steps: int, control: float) -> Pending:
        """Queue `steps` optimiser steps (a multiple of `steps_per_call`); `control` goes with every one of them."""
        ...
