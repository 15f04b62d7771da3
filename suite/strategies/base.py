"""What a strategy is: the processes of a case (planned without TensorFlow) and how a step runs over its replicas.

The planner reads `layout` and `refuses`; only a rank calls `open`. A file of this folder therefore imports
TensorFlow inside `open` and the session it returns, never at module level.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tfscale.suite.timing.protocol import Runner

if TYPE_CHECKING:
    from tfscale.suite.plan import RankPlan
    from tfscale.suite.spec import Case

Role = Literal["worker", "coordinator", "ps"]


@dataclass(frozen=True)
class RankLayout:
    """One process of a case: its role, the index within the role, its host (0-based), and how many devices it drives."""

    role: Role
    index: int
    host: int
    devices: int
    first_replica: int
    """Global number of the first replica in this process; its replicas are consecutive."""


@dataclass(frozen=True)
class Machine:
    """What a host offers, as pruning needs it. `accelerators` counts GPUs or TPU cores; None where nobody knows."""

    cores: int
    gpus: int | None
    tpus: int | None = 0


class Session(ABC):
    """An opened strategy in one rank. Everything here runs TensorFlow.

    `replica_step(batch, control)` runs in replica context on a per-replica batch and returns what training/step.py's
    `StepOutput` holds, already reduced over replicas for synchronous strategies.
    """

    replicas: int
    """Replicas of the whole job that this session trains together (independent: 1)."""
    first_replica: int
    local_replicas: int

    @abstractmethod
    def scope(self) -> AbstractContextManager[Any]:
        """Variables are created under this."""

    @abstractmethod
    def runner(self, replica_step: Callable[..., Any], feed: Any, steps_per_call: int) -> Runner:
        """Compile `steps_per_call` steps into one call over this session's replicas, fed from `feed` (training/feed.py)."""

    @abstractmethod
    def run_once(self, fn: Callable[..., Any], per_replica: Callable[[int], Any]) -> list[Any]:
        """Run `fn(per_replica(global replica number))` once in each local replica; local results, in replica order."""

    def variable(self, *args: Any, **kwargs: Any) -> Any:
        """Create an embedding table (sharded where the strategy shards)."""
        import tensorflow as tf

        return tf.Variable(*args, **kwargs)

    def close(self) -> None:
        """Leave the job in an orderly way (after results are on disk)."""


class Strategy(ABC):
    """One tf.distribute strategy, or a baseline, as planning sees it."""

    name: ClassVar[str]
    synchronous: ClassVar[bool] = True
    exchanges: ClassVar[bool] = True
    """Whether gradients travel between replicas, so that `exchange` other than none means something."""

    @abstractmethod
    def layout(self, case: "Case") -> list[RankLayout]:
        """The processes of `case`, in rank order. Rank 0 decides block size and stop, and is never a parameter server."""

    def refuses(self, case: "Case", machine: Machine) -> str | None:
        """The reason why this strategy cannot run `case` on hosts like `machine`, or None."""
        return None

    @abstractmethod
    def open(self, plan: "RankPlan") -> Session:
        """Join the job as the rank that `plan` describes. Blocks until its peers are there."""
