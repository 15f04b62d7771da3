"""The session of every strategy whose replicas step together: one traced call runs all local replicas.

Progress travels as one small float64 vector from call to call. Nothing is fetched unless asked for, so dispatch stays
asynchronous where the device is, and one fetch brings cumulative counts.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from tfscale.suite.exchange.groupwire import Groups
from tfscale.suite.exchange.strategywire import StrategyWire
from tfscale.suite.exchange.wire import Wire
from tfscale.suite.rankfiles import SelfCheck
from tfscale.suite.strategies import collective_log
from tfscale.suite.strategies.base import Session, TrainRunner
from tfscale.suite.timing.protocol import Fetched, Pending
from tfscale.suite.training.feed import Feed
from tfscale.suite.training.step import TrainStep

STEP, SAMPLES, LOSS, SKIPPED, CONTROL = range(5)
"""Places in the progress vector: completed steps, samples, last loss, skipped steps, last control. Exact up to 2^53."""


class SynchronousSession(Session):
    """Wraps a tf.distribute strategy with replica threads or one replica."""

    def __init__(self, strategy: Any, first_replica: int, collective: str = "auto") -> None:
        self.strategy = strategy
        self.replicas = strategy.num_replicas_in_sync
        self.devices = strategy.extended.worker_devices
        self.local_replicas = len(self.devices)
        self.first_replica = first_replica
        self.groups = Groups(self.devices, collective)

    def scope(self) -> AbstractContextManager[Any]:
        scope: AbstractContextManager[Any] = self.strategy.scope()
        return scope

    def components(self, variable: Any) -> list[Any]:
        return list(self.strategy.experimental_local_results(variable))

    def local_index(self) -> int:
        replica = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
        return int(replica) - self._first_in_sync

    def wire(self) -> Wire:
        replica = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
        return StrategyWire(self, int(replica), self.local_index())

    @property
    def _first_in_sync(self) -> int:
        """Number that TensorFlow gives the first local replica; 0 where the session trains on its own."""
        return self.first_replica if self.replicas > self.local_replicas else 0

    def per_replica(self, values: list[Any]) -> Any:
        """Local values, one a replica, as one distributed value."""
        first = self._first_in_sync
        return self.strategy.experimental_distribute_values_from_function(
            lambda context: values[context.replica_id_in_sync_group - first]
        )

    def run_once(self, fn: Callable[..., Any], per_replica: Callable[[int], Any], times: int = 1) -> list[Any]:
        values = [per_replica(self.first_replica + local) for local in range(self.local_replicas)]

        run = tf.function(lambda distributed: self.strategy.run(fn, args=(distributed,)), autograph=False)
        for _ in range(times):
            results = run(self.per_replica(values))
        return list(self.strategy.experimental_local_results(results))

    def barrier(self) -> None:
        """Return when every replica of the job has come here."""

        def meet(value: Any) -> Any:
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(value))

        for result in self.run_once(meet, lambda replica: tf.ones([])):
            result.numpy()

    def self_check(self, exchange: str) -> SelfCheck:
        from tfscale.suite.training.selfcheck import check_aggregation

        return check_aggregation(self, exchange)

    def effective(self, log: str | None) -> dict[str, Any]:
        if self.replicas == 1:
            return {}
        return collective_log.effective(
            log, "gpu" if any("GPU" in device.upper() for device in self.devices) else "cpu"
        )

    def device_peak_bytes(self) -> int | None:
        gpus = [tf.DeviceSpec.from_string(device) for device in self.devices if "GPU" in device.upper()]
        peaks = [tf.config.experimental.get_memory_info(f"GPU:{gpu.device_index}")["peak"] for gpu in gpus]
        return max(peaks) if peaks else None

    def runner(self, replica_step: TrainStep, feed: Feed, steps_per_call: int) -> TrainRunner:
        feed.place(self.devices)
        return SynchronousRunner(self, replica_step, feed, steps_per_call)


class SynchronousPending(Pending):
    """The progress vector of a dispatched call."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress

    def fetch(self) -> Fetched:
        step, samples, loss, skipped, control = self._progress.numpy().tolist()
        return Fetched(step=int(step), samples=int(samples), loss=loss, skipped=int(skipped), control=control)


class SynchronousRunner:
    """Dispatches the traced call, each chained to the one before by the progress vector."""

    def __init__(self, session: SynchronousSession, step: TrainStep, feed: Feed, steps_per_call: int) -> None:
        self._session = session
        self._step = step
        self._feed = feed
        self._steps_per_call = steps_per_call
        self._function = tf.function(self._call, autograph=False)
        self.traced: Any = None
        """The traced call (progress, control) -> progress, once `trace` has run."""
        self._progress = tf.zeros([5], tf.float64)
        self._controls: dict[float, Any] = {}

    def trace(self) -> None:
        if self.traced is None:
            self.traced = self._function.get_concrete_function(self._progress, self._control(0.0))

    def go_on(self, done: Fetched) -> None:
        """Count on from `done`, which an earlier process had come to; the feed must have been told of its step."""
        counts = [done.step, done.samples, done.loss, done.skipped, done.control]
        self._progress = tf.constant(counts, tf.float64)

    def tracings(self) -> int:
        return int(self._function.experimental_get_tracing_count())

    def clusters(self) -> int:
        self.trace()
        return self._step.clusters(self.traced.graph)

    def dispatch(self, steps: int, control: float) -> SynchronousPending:
        calls, rest = divmod(steps, self._steps_per_call)
        if rest or calls < 1:
            raise ValueError(f"{steps} steps are not a multiple of {self._steps_per_call} steps a call")
        value = self._control(control)
        self.trace()
        # The traced function itself: finding it again for every call costs 0.3 ms of Python, a twentieth of a short step.
        for _ in range(calls):
            self._progress = self.traced(self._progress, value)
        return SynchronousPending(self._progress)

    def _control(self, control: float) -> Any:
        return self._controls.setdefault(control, tf.constant(control, tf.float32))

    def _call(self, progress: Any, control: Any) -> Any:
        if self._steps_per_call == 1:
            return self._one(progress, control)
        _, progress = tf.while_loop(
            lambda index, _: index < self._steps_per_call,
            lambda index, progress: (index + 1, self._one(progress, control)),
            (tf.constant(0), progress),
            parallel_iterations=1,
        )
        return progress

    def _one(self, progress: Any, control: Any) -> Any:
        """One step over all local replicas: progress in, progress out."""
        step = tf.cast(progress[STEP], tf.int64)
        applied = step - tf.cast(progress[SKIPPED], tf.int64)
        strategy = self._session.strategy
        batches = []
        for local, device in enumerate(self._session.devices):
            with tf.device(device):
                batches.append(self._feed.batch(local, step))
        out = strategy.run(self._step, args=(self._session.per_replica(batches), applied, control))
        loss, samples, skipped, control = (
            tf.cast(strategy.experimental_local_results(value)[0], tf.float64) for value in out
        )
        return tf.stack([progress[STEP] + 1.0, progress[SAMPLES] + samples, loss, progress[SKIPPED] + skipped, control])
