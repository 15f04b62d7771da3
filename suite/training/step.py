"""The train step of one replica: forward and backward, one exchange, clipping, update.

It runs in replica context and is the same under every strategy. What is needed of the other replicas besides
gradients (loss, sample count, control, overflow) rides in the gradients' own exchange.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from tfscale.suite.exchange.base import Exchange
from tfscale.suite.exchange.compiled import NAME as exchange_functions
from tfscale.suite.exchange.shapes import GradientShape, shapes_of
from tfscale.suite.training import xla as xla_values
from tfscale.suite.training.accumulate import LossAndGradients, accumulate, differentiate
from tfscale.suite.training.optimizers import Update, Updater, clip_scale, create_slots, rule_of
from tfscale.suite.training.precision import LossScale, all_finite
from tfscale.suite.workload import Batch, Model, OptimizerSpec

if TYPE_CHECKING:
    from tfscale.suite.strategies.base import Session


class StepOutput(NamedTuple):
    """float32 scalars, combined over the replicas that the step averages."""

    loss: Any
    """Mean loss before the update."""
    samples: Any
    """Samples consumed, from the first dimension of the batches."""
    skipped: Any
    """1 when the update was skipped because a gradient was not finite, else 0."""
    control: Any
    """Sum of the `control` values that ranks gave."""


@dataclass(frozen=True)
class StepOptions:
    """What a case says about the step."""

    optimizer: OptimizerSpec
    learning_rate: float
    accumulation: int = 1
    cluster: bool = False
    """Compile forward and backward as one XLA function."""
    loss_scaling: bool = False
    update: Update = "compiled"


class TrainStep:
    """Build under the strategy's scope; call in replica context. Creates slots and the loss scale."""

    def __init__(self, model: Model, session: "Session", exchange: Exchange, options: StepOptions) -> None:
        self._model = model
        self._session = session
        self._options = options
        self.exchange = exchange
        self.payload_bytes: int | None = None
        """Bytes that one replica hands to collectives in a step; None before tracing."""
        self.gradient_shapes: list[GradientShape] = []
        """Shapes of the gradients that are exchanged; none before tracing, or where nothing is."""
        self.variables = flat_variables(model)
        self.slots = create_slots(rule_of(options.optimizer), self.variables)
        self.loss_scale = LossScale() if options.loss_scaling else None
        self._updater = Updater(rule_of(options.optimizer, options.learning_rate), options.update)
        exchange.build(session, self.variables)

        replicas = range(session.local_replicas)
        self._own_variables = [[session.components(v)[r] for v in self.variables] for r in replicas]
        self._own_slots = [[[session.components(s)[r] for s in row] for row in self.slots] for r in replicas]
        scale = self.loss_scale.variables() if self.loss_scale else []
        self._own_scale = [[session.components(v)[r] for v in scale] for r in replicas]
        # One compiled function a replica: a shared one would read the variables of the replica that traced it.
        self._gradients = [self._gradient_function(r) for r in replicas]

    def __call__(self, batch: Batch, applied: Any, control: Any) -> StepOutput:
        """One step on this replica's batch. `applied`: updates so far (integer scalar); `control`: float32 scalar."""
        replica = self._session.local_index()
        share = 1.0 / (self._session.averaged * self._options.accumulation)
        loss, gradients, overflow = self._shares(replica, batch, share)
        samples = tf.cast(tf.shape(next(iter(batch.values())))[0], tf.float32)
        riders = tf.stack([loss * share, samples, control if replica == 0 else tf.zeros([]), overflow])
        wire = self._session.wire()
        if wire.replicas > 1:
            self.gradient_shapes = shapes_of(gradients, self.variables)
        means, sums = self.exchange.reduce(wire, gradients, riders)
        skipped = self._update(replica, means, sums[3], applied)
        self.exchange.after_update(wire, self._own_variables[replica], applied + 1)
        self.exchange.settle(replica, skipped)
        self.payload_bytes = wire.payload_bytes
        return StepOutput(loss=sums[0], samples=sums[1], skipped=skipped, control=sums[2])

    def clusters(self, graph: Any) -> int:
        """Compiled functions of the traced step that hold model code."""
        return xla_values.count_must_compile(graph, "by_formula", exchange_functions)

    def _gradient_function(self, replica: int) -> Callable[[Batch, Any], LossAndGradients]:
        variables = self._own_variables[replica]

        def one(batch: Batch, factor: Any) -> LossAndGradients:
            return differentiate(self._model, batch, factor, variables)

        def whole(batch: Batch, factor: Any) -> LossAndGradients:
            return accumulate(lambda part: one(part, factor), batch, self._options.accumulation)

        return tf.function(whole, jit_compile=True, autograph=False) if self._options.cluster else whole

    def _shares(self, replica: int, batch: Batch, share: float) -> tuple[Any, list[Any], Any]:
        """Summed loss of the micro-batches, this replica's shares of the mean gradients, and 1.0 on overflow."""
        if self.loss_scale is None:
            loss, gradients = self._gradients[replica](batch, tf.constant(share))
            return loss, list(gradients), tf.zeros([])
        scale = tf.identity(self._own_scale[replica][0])
        loss, gradients = self._gradients[replica](batch, scale * share)
        unscaled = [_times(gradient, 1.0 / scale) for gradient in gradients]
        return loss, unscaled, 1.0 - tf.cast(all_finite(unscaled), tf.float32)

    def _update(self, replica: int, means: list[Any], overflows: Any, applied: Any) -> Any:
        if self.loss_scale is None:
            self._apply(replica, means, applied)
            return tf.zeros([])
        finite = tf.equal(overflows, 0.0)
        scale, good_steps = self._own_scale[replica]
        new_scale, new_good_steps = LossScale.next(scale, good_steps, finite)

        def apply() -> Any:
            self._apply(replica, means, applied)
            return tf.zeros([])

        skipped = tf.cond(finite, apply, lambda: tf.ones([]))
        scale.assign(new_scale)
        good_steps.assign(new_good_steps)
        return skipped

    def _apply(self, replica: int, means: list[Any], applied: Any) -> None:
        limit = self._options.optimizer.clip_global_norm
        scale = None if limit is None else clip_scale(means, limit)
        self._session.update(
            self._updater, self._own_variables[replica], self._own_slots[replica], means, applied, scale
        )


def _times(gradient: Any, factor: Any) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor


def flat_variables(model: Model) -> list[Any]:
    """The trainable variables as TensorFlow's own, in the model's order: Keras' wrappers and shards taken apart."""
    flat: list[Any] = []
    for variable in model.variables:
        inner = variable.value if _is_keras(variable) else variable
        flat.extend(inner.variables if hasattr(inner, "variables") else [inner])
    return flat


def _is_keras(variable: Any) -> bool:
    """By name: the class that `keras.Variable` stands for is not the same in every version."""
    return any(base.__module__.partition(".")[0] == "keras" for base in type(variable).__mro__)
