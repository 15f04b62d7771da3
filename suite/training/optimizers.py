"""Applying an update rule to variables: dense gradients by compiled or in-place kernels, sparse ones row by row.

Keras' optimisers are not called in a replica: some versions aggregate gradients over the replicas by themselves (a
second exchange), others do not.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import tensorflow as tf

from tfscale.suite.training.rules import RULES, Coefficients, Rule
from tfscale.suite.workload import OptimizerSpec

Update = Literal["compiled", "kernels"]
COMPILED_FROM = 65536
"""Elements from which a compiled update (one pass over memory) beats the in-place kernels; below, a launch costs more."""


def scaled_learning_rate(base: float, rule: str, factor: int) -> float:
    """The learning rate at `factor` times one replica's micro-batch (replicas averaged in an update x accumulation).

    none: base; linear: base x factor (Goyal et al. 2017); sqrt: base x sqrt(factor) (Krizhevsky 2014).
    """
    scale = {"none": 1.0, "linear": float(factor), "sqrt": math.sqrt(factor)}
    if rule not in scale:
        raise ValueError(f"learning-rate rule {rule!r} is not known (known: {', '.join(scale)})")
    return base * scale[rule]


def rule_of(spec: OptimizerSpec, learning_rate: float | None = None) -> Rule:
    """The rule that `spec` names, at its own or another learning rate."""
    rate = spec.learning_rate if learning_rate is None else learning_rate
    return RULES[spec.name](rate, spec.hyper)


def create_slots(rule: Rule, variables: Sequence[Any]) -> list[list[Any]]:
    """The slots of every variable, on its device, created under the current strategy's scope; [variable][slot]."""
    strategy = tf.distribute.get_strategy()
    slots = []
    for variable in variables:
        with strategy.extended.colocate_vars_with(variable):
            slots.append([_slot(variable, name, start) for name, start in rule.slots().items()])
    return slots


def _slot(variable: Any, name: str, start: float) -> Any:
    # A callable is evaluated where the variable lives, so that its zeros do not travel.
    return tf.Variable(
        lambda: tf.fill(variable.shape, tf.constant(start, variable.dtype)),
        trainable=False,
        name=f"{variable.name.split(':')[0]}_{name}",
    )


class Updater:
    """Applies one rule to plain `tf.Variable`s, once a step.

    `update` names how dense gradients are applied. compiled: large variables by an XLA function of the formula, one
    compilation for each shape, small ones by kernels. kernels: always TensorFlow's in-place kernels, which run where
    the variable lives, also on another host.
    """

    def __init__(self, rule: Rule, update: Update) -> None:
        self.rule = rule
        self.update = update
        self._compiled = tf.function(self._by_formula, jit_compile=True)

    def apply(self, variables: Sequence[Any], slots: Sequence[Sequence[Any]], gradients: Sequence[Any], step: Any,
              scale: Any = None) -> None:  # fmt: skip
        """Update every variable in place.

        Args:
            variables: plain variables of one device each.
            slots: `create_slots` of them, for the same device.
            gradients: dense tensors or IndexedSlices (duplicate rows are summed).
            step: integer scalar, the number of updates applied so far.
            scale: float32 scalar that multiplies every gradient (clipping), or None for 1.
        """
        coefficients = self.rule.coefficients(step)
        for variable, own, gradient in zip(variables, slots, gradients, strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                self._rows(variable, own, gradient, coefficients, scale)
            elif self.update == "compiled" and variable.shape.num_elements() >= COMPILED_FROM:
                one = tf.ones([]) if scale is None else scale
                self._compiled(variable, list(own), gradient, coefficients, one)
            else:
                scaled = gradient if scale is None else gradient * scale
                with tf.device(variable.device):  # a variable of another process is never read over the network
                    self.rule.kernel(variable, own, scaled, coefficients)

    def _by_formula(self, variable: Any, slots: list[Any], gradient: Any, c: Coefficients, scale: Any) -> None:
        value, new = self.rule.formula(variable, slots, gradient * scale, c)
        for slot, new_slot in zip(slots, new, strict=True):
            slot.assign(new_slot)
        variable.assign(value)

    def _rows(self, variable: Any, slots: Sequence[Any], gradient: Any, c: Coefficients, scale: Any) -> None:
        """Update the rows that `gradient` touches, each once."""
        rows, values = summed_rows(gradient)
        if scale is not None:
            values = values * scale
        with tf.device(variable.device):
            old = [tf.gather(tensor, rows) for tensor in (variable, *slots)]
            value, new = self.rule.formula(old[0], old[1:], values, c)
            for tensor, updated in zip((variable, *slots), (value, *new), strict=True):
                tf.raw_ops.ResourceScatterUpdate(resource=tensor.handle, indices=rows, updates=updated)


def summed_rows(gradient: Any) -> tuple[Any, Any]:
    """Distinct row numbers of an IndexedSlices, and the sum of the values of each."""
    rows, position = tf.unique(gradient.indices)
    return rows, tf.math.unsorted_segment_sum(gradient.values, position, tf.size(rows))


def global_norm(gradients: Sequence[Any]) -> Any:
    """Euclidean norm over all gradients (duplicate rows summed first, as in the dense gradient)."""
    parts = [summed_rows(g)[1] if isinstance(g, tf.IndexedSlices) else g for g in gradients]
    return tf.sqrt(2.0 * tf.add_n([tf.nn.l2_loss(part) for part in parts]))


def clip_scale(gradients: Sequence[Any], limit: float) -> Any:
    """The factor, at most 1, that brings the global norm down to `limit`; a norm that is not finite gives NaN."""
    norm = global_norm(gradients)
    return tf.where(tf.math.is_finite(norm), tf.minimum(1.0, limit / norm), norm * 0.0)
