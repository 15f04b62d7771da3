"""What a strategy is: the processes of a case (planned without TensorFlow) and how a step runs over its replicas.

The planner reads `layout` and `refuses`; only a rank calls `open`. A file of this folder therefore imports
TensorFlow inside `open` and the session it returns, never at module level.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from tfscale.suite.timing.protocol import Runner

if TYPE_CHECKING:
    from tfscale.suite.exchange.wire import Wire
    from tfscale.suite.plan import RankPlan
    from tfscale.suite.rankfiles import SelfCheck
    from tfscale.suite.spec import Case
    from tfscale.suite.training.feed import Feed
    from tfscale.suite.training.step import TrainStep

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
    kind: Literal["cpu", "gpu", "tpu"] = "cpu"
    """What cases are to run on; asked for by the suite, or found."""
    cores_per_device: int = 1
    """Cores that each CPU device is to have, where the suite says it."""


class TrainRunner(Runner, Protocol):
    """A runner that can say how it came about."""

    def trace(self) -> None:
        """Trace the step (and no more), so that the first dispatch does not."""

    def tracings(self) -> int:
        """How often the step was traced so far; more than 1 means that it was traced again while it ran."""

    def clusters(self) -> int:
        """XLA-compiled functions in the traced step that hold model code."""


class Session(ABC):
    """An opened strategy in one rank. Everything here runs TensorFlow.

    A replica step (training/step.py) is called as `replica_step(batch, applied, control)` in replica context on a
    per-replica batch, and returns a `StepOutput`, already combined over replicas for synchronous strategies.
    """

    replicas: int
    """Replicas of the whole job that this session trains together (independent: 1)."""
    first_replica: int
    local_replicas: int
    devices: tuple[str, ...] = ()
    """TensorFlow's names of the devices of the local replicas; empty where they are not in this process."""
    racks: tuple[int, ...] = ()
    """Rack of every replica of the job, by their numbers; empty where nobody has told."""
    asks_update: Literal["compiled", "kernels"] = "compiled"
    """How dense gradients may be applied here; see training/optimizers.py."""

    @property
    def averaged(self) -> int:
        """Replicas whose gradients are averaged in one update: all of them in a synchronous job, 1 in an asynchronous."""
        return self.replicas

    @abstractmethod
    def scope(self) -> AbstractContextManager[Any]:
        """Variables are created under this."""

    @abstractmethod
    def runner(self, replica_step: "TrainStep", feed: "Feed", steps_per_call: int) -> TrainRunner:
        """Compile `steps_per_call` steps into one call over this session's replicas, fed from `feed` (training/feed.py)."""

    @abstractmethod
    def run_once(self, fn: Callable[..., Any], per_replica: Callable[[int], Any], times: int = 1) -> list[Any]:
        """Trace `fn(per_replica(global replica number))` in each local replica and run that, `times` times.

        Local results of the last time, in replica order.
        """

    @abstractmethod
    def self_check(self, exchange: str) -> "SelfCheck":
        """One step on probe variables that shows whether updates of every replica arrive, through that exchange."""

    @abstractmethod
    def components(self, variable: Any) -> list[Any]:
        """The plain variables behind one created under `scope`, one a local replica."""

    @abstractmethod
    def local_index(self) -> int:
        """In replica context, while tracing: the number of this replica among the local ones."""

    def wire(self) -> "Wire":
        """In replica context, while tracing: what carries tensors to the other replicas whose gradients are averaged."""
        from tfscale.suite.exchange.wire import Alone

        return Alone(self.local_index())

    def update(self, updater: Any, variables: Any, slots: Any, gradients: Any, step: Any, scale: Any) -> None:
        """Apply averaged gradients to this replica's own variables (in replica context)."""
        updater.apply(variables, slots, gradients, step, scale)

    def variable(self, *args: Any, **kwargs: Any) -> Any:
        """Create an embedding table (sharded where the strategy shards)."""
        import tensorflow as tf

        return tf.Variable(*args, **kwargs)

    def device_peak_bytes(self) -> int | None:
        """Peak of the device allocator, the largest over local devices; None where TensorFlow does not count it (CPU)."""
        return None

    def effective(self, log: str | None) -> dict[str, Any]:
        """What this strategy really used, read back; `log` is the rank's own log so far, or None."""
        return {}

    def close(self) -> None:
        """Leave the job in an orderly way (after results are on disk)."""


class Strategy(ABC):
    """One tf.distribute strategy, or a baseline, as planning sees it."""

    name: ClassVar[str]
    synchronous: ClassVar[bool] = True
    exchanges: ClassVar[bool] = True
    """Whether gradients travel between replicas, so that `exchange` other than none means something."""

    resumes: ClassVar[bool] = False
    """Whether its ranks can save their training, each by itself, and take it up again in a later launch."""

    @abstractmethod
    def layout(self, case: "Case") -> list[RankLayout]:
        """The processes of `case`, in rank order. Rank 0 decides block size and stop, and is never a parameter server."""

    def refuses(self, case: "Case", machine: Machine) -> str | None:
        """The reason why this strategy cannot run `case` on hosts like `machine`, or None."""
        return None

    def replicas(self, case: "Case") -> int:
        """Replicas that each session of `case` must find itself training with."""
        return case.devices

    def serves(self, plan: "RankPlan") -> bool:
        """Whether that rank only serves others: it calls `serve` instead of `open`, and has no results of its own."""
        return False

    def serve(self, plan: "RankPlan", joined: Callable[[], None]) -> None:
        """Serve until the job is over; calls `joined` when ready."""
        raise NotImplementedError

    def release(self, plan: "RankPlan") -> None:
        """Called at the end of every rank, also after an error: let those end that wait for this one."""

    @abstractmethod
    def open(self, plan: "RankPlan") -> Session:
        """Join the job as the rank that `plan` describes. Blocks until its peers are there."""
