"""The session of the asynchronous coordinator: steps are scheduled on workers and counted as they complete."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from tfscale.suite.plan import RankPlan
from tfscale.suite.rankfiles import SelfCheck
from tfscale.suite.strategies.base import Session, TrainRunner
from tfscale.suite.timing.protocol import Fetched
from tfscale.suite.training.feed import Feed
from tfscale.suite.training.optimizers import Updater
from tfscale.suite.training.rules import Sgd
from tfscale.suite.training.step import TrainStep

MIN_SHARD_BYTES = 256 * 1024
"""A table is cut into no smaller pieces than this (TensorFlow's own advice)."""
CHECK_ROUNDS = 50


class ScheduledSession(Session):
    """Wraps ParameterServerStrategy and its ClusterCoordinator. `replicas` are the workers."""

    local_replicas = 1
    first_replica = 0
    asks_update = "kernels"

    def __init__(self, plan: RankPlan, servers: int) -> None:
        self._sharding = False
        self._shards = 0
        self.counts_staleness = plan.pass_ == "losses"
        """Whether each step also counts the updates of others while it ran: a few more messages, so never while timed."""
        self.replicas = len(plan.cluster["worker"])
        smallest = tf.distribute.experimental.partitioners.MinSizePartitioner(MIN_SHARD_BYTES, max_shards=servers)

        def partition(shape: Any, dtype: Any, axis: int = 0) -> list[int]:
            # Keras layers cannot hold a sharded variable: only tables made by `variable` are cut.
            return list(smallest(shape, dtype, axis)) if self._sharding else [1] * shape.rank

        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        self.strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partition)
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(self.strategy)

    @property
    def averaged(self) -> int:
        return 1

    def scope(self) -> AbstractContextManager[Any]:
        scope: AbstractContextManager[Any] = self.strategy.scope()
        return scope

    def components(self, variable: Any) -> list[Any]:
        return [variable]

    def local_index(self) -> int:
        return 0

    def variable(self, *args: Any, **kwargs: Any) -> Any:
        self._sharding = True
        try:
            table = tf.Variable(*args, **kwargs)
        finally:
            self._sharding = False
        self._shards += len(table.variables) if hasattr(table, "variables") else 1
        return table

    def run_once(self, fn: Callable[..., Any], per_replica: Callable[[int], Any], times: int = 1) -> list[Any]:
        """On one worker at a time, whichever is free."""
        value = per_replica(0)
        run = tf.function(lambda: self.strategy.run(fn, args=(value,)), autograph=False)
        return [[self.coordinator.schedule(run).fetch() for _ in range(times)][-1]]

    def self_check(self, exchange: str) -> SelfCheck:
        """Every worker subtracts -1 from its own place of a probe, by an update like any other, until all have done so."""
        with self.scope():
            probe = tf.Variable(tf.zeros([self.replicas, 1]))
        updater = Updater(Sgd(1.0, {}), "kernels")

        def mark(worker: Any) -> Any:
            gradient = tf.IndexedSlices(-tf.ones([1, 1]), tf.reshape(worker, [1]))
            updater.apply([probe], [[]], [gradient], tf.zeros([], tf.int64))
            return worker

        def mark_as_worker() -> Any:
            worker = tf.cast(tf.distribute.coordinator.experimental_get_current_worker_index(), tf.int32)
            return self.strategy.run(mark, args=(worker,))

        run = tf.function(mark_as_worker, autograph=False)
        done: Counter[int] = Counter()
        for _ in range(CHECK_ROUNDS):
            scheduled = [self.coordinator.schedule(run) for _ in range(2 * self.replicas)]
            done.update(int(value.fetch()) for value in scheduled)
            if len(done) == self.replicas:
                break
        return judge_arrivals(probe.numpy().ravel().tolist(), done, self.replicas)

    def effective(self, log: str | None) -> dict[str, Any]:
        return {
            "collective": None,
            "collective_reason": "gradients travel to parameter servers by gRPC",
            "embedding_shards": self._shards,
        }

    def runner(self, replica_step: TrainStep, feed: Feed, steps_per_call: int) -> TrainRunner:
        return ScheduledRunner(self, replica_step, feed, steps_per_call)


def judge_arrivals(arrived: list[float], done: Counter[int], workers: int) -> SelfCheck:
    """Whether the probe counts exactly the updates that each worker says it has made, and each made at least one."""
    if len(done) < workers:
        missing = sorted(set(range(workers)) - set(done))
        return SelfCheck(passed=False, detail=f"workers {missing} took no step in {sum(done.values())}")
    expected = [float(done[worker]) for worker in range(workers)]
    detail = f"updates made by each worker: {expected}; arrived: {arrived}"
    return SelfCheck(passed=arrived == expected, detail=detail)


class ScheduledRunner:
    """Schedules calls on whichever worker is free. Counts are of completed calls."""

    def __init__(self, session: ScheduledSession, step: TrainStep, feed: Feed, steps_per_call: int) -> None:
        self._session = session
        self._step = step
        self._steps_per_call = steps_per_call
        self._function = tf.function(self._call, autograph=False)
        self._traced: Any = None
        with session.scope():
            self._updates = tf.Variable(tf.zeros([], tf.int64), trainable=False, name="updates")
        workers = session.replicas

        def dataset() -> Any:
            worker = tf.distribute.coordinator.experimental_get_current_worker_index()
            own = tf.data.Dataset.from_tensors(tf.cast(worker, tf.int64)).repeat()
            return tf.data.Dataset.choose_from_datasets([feed.dataset(w) for w in range(workers)], own)

        self._iterator = iter(session.coordinator.create_per_worker_dataset(dataset))
        self.done = Fetched(step=0, samples=0, loss=float("nan"), skipped=0, control=0.0)

    def trace(self) -> None:
        # What is scheduled is the traced step itself: the coordinator then has nothing to trace or to look up.
        with self._session.scope():
            self._traced = self._function.get_concrete_function(self._iterator._values[0]._type_spec)

    def tracings(self) -> int:
        return int(self._function.experimental_get_tracing_count())

    def clusters(self) -> int:
        return self._step.clusters(self._traced.graph)

    def dispatch(self, steps: int, control: float) -> "ScheduledPending":
        calls, rest = divmod(steps, self._steps_per_call)
        if rest or calls < 1:
            raise ValueError(f"{steps} steps are not a multiple of {self._steps_per_call} steps a call")
        schedule = self._session.coordinator.schedule
        values = [schedule(self._traced, args=(self._iterator,)) for _ in range(calls)]
        return ScheduledPending(self, values, steps, control)

    def _call(self, iterator: Any) -> Any:
        """One call on one worker: [last loss, samples, skipped steps, staleness where it is counted], float32."""
        if self._steps_per_call == 1:
            return self._one(iterator)

        def body(index: Any, total: Any) -> Any:
            out = self._one(iterator)
            return index + 1, tf.stack([out[0], total[1] + out[1], total[2] + out[2]])

        _, total = tf.while_loop(
            lambda index, _: index < self._steps_per_call,
            body,
            (tf.constant(0), tf.zeros([3])),
            parallel_iterations=1,
        )
        return total

    def _one(self, iterator: Any) -> Any:
        applied = self._updates.read_value()
        out = self._session.strategy.run(self._step, args=(next(iterator), applied, tf.zeros([])))
        own = 1 - tf.cast(out.skipped, tf.int64)
        if not self._session.counts_staleness:
            self._updates.assign_add(own)
            return tf.stack([out.loss, out.samples, out.skipped])
        # The counter is looked at once this step's update has reached the smallest variable: reading it waits for that.
        smallest = min(self._step.variables, key=lambda variable: int(variable.shape.num_elements()))
        with tf.control_dependencies([smallest.read_value()]):
            others = self._updates.read_value() - applied
            self._updates.assign_add(own)
        return tf.stack([out.loss, out.samples, out.skipped, tf.cast(others, tf.float32)])


class ScheduledPending:
    """Scheduled calls. Fetch them in the order of dispatch."""

    def __init__(self, runner: ScheduledRunner, values: list[Any], steps: int, control: float) -> None:
        self._runner = runner
        self._values = values
        self._steps = steps
        self._control = control

    def fetch(self) -> Fetched:
        """Wait for every call of the group; counts are those of all groups fetched so far."""
        results = [value.fetch() for value in self._values]
        before = self._runner.done
        self._runner.done = Fetched(
            step=before.step + self._steps,
            samples=before.samples + sum(int(result[1]) for result in results),
            loss=float(results[-1][0]),
            skipped=before.skipped + sum(int(result[2]) for result in results),
            control=self._control,
            staleness=float(results[-1][3]) if len(results[-1]) > 3 else None,
        )
        return self._runner.done
