"""The update rules as pure formulas: SGD, Adagrad, AdamW, each as Keras 3 defines it (keras/src/optimizers/*.py).

`formula` takes and returns tensors of one shape, whatever their number of rows: whole variables, or the rows that a
sparse gradient touches. `kernel` is the same rule by TensorFlow's in-place kernels, where it has them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import tensorflow as tf

Coefficients = tuple[Any, ...]
"""float32 scalars that depend on the step only, computed once a step."""


class Rule(ABC):
    """One update rule. `hyper` as in `OptimizerSpec`; an unknown key raises ValueError."""

    name: ClassVar[str]
    defaults: ClassVar[Mapping[str, float]]

    def __init__(self, learning_rate: float, hyper: Mapping[str, float]) -> None:
        unknown = sorted(set(hyper) - set(self.defaults))
        if unknown:
            raise ValueError(f"{self.name} has no {unknown[0]!r} (known: {', '.join(sorted(self.defaults))})")
        self.learning_rate = learning_rate
        self.hyper = {**self.defaults, **hyper}

    @abstractmethod
    def slots(self) -> dict[str, float]:
        """Slot name -> initial value of every element."""

    @abstractmethod
    def coefficients(self, step: Any) -> Coefficients:
        """Scalars for update number `step` (an integer tensor, 0 for the first update)."""

    @abstractmethod
    def formula(self, value: Any, slots: Sequence[Any], gradient: Any, c: Coefficients) -> tuple[Any, list[Any]]:
        """The new value and the new slots."""

    def kernel(self, variable: Any, slots: Sequence[Any], gradient: Any, c: Coefficients) -> None:
        """Update in place, on the variable's own device. By default the formula, operation by operation."""
        value, new = self.formula(variable, slots, gradient, c)
        for slot, new_slot in zip(slots, new, strict=True):
            slot.assign(new_slot)
        variable.assign(value)


class Sgd(Rule):
    """v <- momentum v - lr g; w <- w + v (nesterov: w + momentum v - lr g); without momentum w <- w - lr g."""

    name = "sgd"
    defaults: ClassVar[Mapping[str, float]] = {"momentum": 0.0, "nesterov": 0.0, "weight_decay": 0.0}

    def slots(self) -> dict[str, float]:
        return {"momentum": 0.0} if self.hyper["momentum"] else {}

    def coefficients(self, step: Any) -> Coefficients:
        return tf.constant(self.learning_rate), tf.constant(1.0 - self.learning_rate * self.hyper["weight_decay"])

    def formula(self, value: Any, slots: Sequence[Any], gradient: Any, c: Coefficients) -> tuple[Any, list[Any]]:
        rate, keep = c
        decayed = value * keep if self.hyper["weight_decay"] else value
        if not slots:
            return decayed - rate * gradient, []
        velocity = self.hyper["momentum"] * slots[0] - rate * gradient
        if self.hyper["nesterov"]:
            return decayed + self.hyper["momentum"] * velocity - rate * gradient, [velocity]
        return decayed + velocity, [velocity]

    def kernel(self, variable: Any, slots: Sequence[Any], gradient: Any, c: Coefficients) -> None:
        if slots or self.hyper["weight_decay"]:
            super().kernel(variable, slots, gradient, c)
        else:
            tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=c[0], delta=gradient)


class Adagrad(Rule):
    """a <- a + g^2; w <- w - lr g / sqrt(a + epsilon). The slot holds a + epsilon, so that the kernel needs no epsilon."""

    name = "adagrad"
    defaults: ClassVar[Mapping[str, float]] = {"initial_accumulator_value": 0.1, "epsilon": 1e-7}

    def slots(self) -> dict[str, float]:
        return {"accumulator": self.hyper["initial_accumulator_value"] + self.hyper["epsilon"]}

    def coefficients(self, step: Any) -> Coefficients:
        return (tf.constant(self.learning_rate),)

    def formula(self, value: Any, slots: Sequence[Any], gradient: Any, c: Coefficients) -> tuple[Any, list[Any]]:
        accumulator = slots[0] + gradient * gradient
        return value - c[0] * gradient * tf.math.rsqrt(accumulator), [accumulator]

    def kernel(self, variable: Any, slots: Sequence[Any], gradient: Any, c: Coefficients) -> None:
        tf.raw_ops.ResourceApplyAdagrad(var=variable.handle, accum=slots[0].handle, lr=c[0], grad=gradient)


class AdamW(Rule):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019), epsilon outside the bias correction as in Keras.

    With t = step + 1: w <- w (1 - lr decay); m <- m + (1 - b1)(g - m); v <- v + (1 - b2)(g^2 - v);
    w <- w - lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + epsilon). Every variable decays, as in Keras' default.
    Rows that a sparse gradient does not touch keep value and moments (Keras would decay their moments).
    """

    name = "adamw"
    defaults: ClassVar[Mapping[str, float]] = {
        "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7, "weight_decay": 0.004,
    }  # fmt: skip

    def slots(self) -> dict[str, float]:
        return {"momentum": 0.0, "velocity": 0.0}

    def coefficients(self, step: Any) -> Coefficients:
        t = tf.cast(step + 1, tf.float32)
        power_1, power_2 = tf.pow(self.hyper["beta_1"], t), tf.pow(self.hyper["beta_2"], t)
        alpha = self.learning_rate * tf.sqrt(1.0 - power_2) / (1.0 - power_1)
        return alpha, tf.constant(1.0 - self.learning_rate * self.hyper["weight_decay"]), power_1, power_2

    def formula(self, value: Any, slots: Sequence[Any], gradient: Any, c: Coefficients) -> tuple[Any, list[Any]]:
        alpha, keep = c[0], c[1]
        momentum = slots[0] + (gradient - slots[0]) * (1.0 - self.hyper["beta_1"])
        velocity = slots[1] + (gradient * gradient - slots[1]) * (1.0 - self.hyper["beta_2"])
        step = alpha * momentum / (tf.sqrt(velocity) + self.hyper["epsilon"])
        return value * keep - step, [momentum, velocity]

    def kernel(self, variable: Any, slots: Sequence[Any], gradient: Any, c: Coefficients) -> None:
        if self.hyper["weight_decay"]:
            variable.assign(variable * c[1])
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=slots[0].handle,
            v=slots[1].handle,
            beta1_power=c[2],
            beta2_power=c[3],
            lr=self.learning_rate,
            beta1=self.hyper["beta_1"],
            beta2=self.hyper["beta_2"],
            epsilon=self.hyper["epsilon"],
            grad=gradient,
        )


RULES: dict[str, type[Rule]] = {rule.name: rule for rule in (Sgd, Adagrad, AdamW)}
