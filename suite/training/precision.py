"""Precision of a case: the Keras dtype policy, TF32, loss scaling, and which arithmetic the device really does."""

from typing import Any

import tensorflow as tf

from tfscale.suite.spec import Precision

POLICY: dict[Precision, str] = {
    "float32": "float32",
    "tf32": "float32",
    "mixed_bfloat16": "mixed_bfloat16",
    "mixed_float16": "mixed_float16",
}


def apply(precision: Precision) -> None:
    """Set the dtype policy and allow or forbid TF32. Before any variable is made; touches no device."""
    import keras

    keras.config.set_dtype_policy(POLICY[precision])
    tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")


def effective(precision: Precision, accelerator: str) -> dict[str, Any]:
    """`math`, the arithmetic of matrix products on the devices that are there, and `math_reason` where it is another."""
    if accelerator == "tpu" and tf.config.list_logical_devices("TPU"):
        return _tpu(precision)
    if accelerator == "gpu" and tf.config.list_logical_devices("GPU"):
        return _gpu(precision, _compute_capability())
    return cpu_math(precision, cpu_flags())


def _tpu(precision: Precision) -> dict[str, Any]:
    if precision in ("float32", "tf32"):
        return {"math": "bfloat16", "math_reason": "a TPU multiplies float32 matrices as bfloat16 by default"}
    return {"math": "bfloat16"} if precision == "mixed_bfloat16" else {"math": "float16"}


def _gpu(precision: Precision, capability: tuple[int, int] | None) -> dict[str, Any]:
    tf32_on = tf.config.experimental.tensor_float_32_execution_enabled()
    if capability is None:
        return {"math": None, "math_reason": "the compute capability of the GPU is not known"}
    had = f"the GPU has compute capability {capability[0]}.{capability[1]}"
    if precision in ("float32", "tf32"):
        if tf32_on and capability >= (8, 0):
            return {"math": "tf32"}
        return {"math": "float32", **({"math_reason": f"TF32 needs 8.0, {had}"} if precision == "tf32" else {})}
    if precision == "mixed_bfloat16":
        if capability >= (8, 0):
            return {"math": "bfloat16"}
        return {"math": "float32", "math_reason": f"bfloat16 products need 8.0, {had}; values are rounded to bfloat16"}
    if capability >= (5, 3):
        return {"math": "float16"}
    return {"math": "float32", "math_reason": f"float16 products need 5.3, {had}"}


def cpu_math(precision: Precision, flags: frozenset[str]) -> dict[str, Any]:
    """`math` of a CPU with these feature flags (as in /proc/cpuinfo), and `math_reason` where it is not as asked."""
    if precision == "float32":
        return {"math": "float32"}
    if precision == "tf32":
        return {"math": "float32", "math_reason": "a CPU has no TF32"}
    kind = "bfloat16" if precision == "mixed_bfloat16" else "float16"
    native = {"bfloat16": ("avx512_bf16", "amx_bf16", "bf16"), "float16": ("avx512_fp16", "amx_fp16", "asimdhp")}[kind]
    if flags.intersection(native):
        return {"math": kind}
    return {
        "math": "float32",
        "math_reason": f"this CPU has no {kind} products; {kind} values are multiplied as float32",
    }


def _compute_capability() -> tuple[int, int] | None:
    devices = tf.config.list_physical_devices("GPU")
    if not devices:
        return None
    capability = tf.config.experimental.get_device_details(devices[0]).get("compute_capability")
    return (int(capability[0]), int(capability[1])) if capability else None


def cpu_flags() -> frozenset[str]:
    """Features of this CPU as the kernel names them; empty where it names none."""
    try:
        with open("/proc/cpuinfo") as file:  # noqa: PTH123
            lines = [line for line in file if line.startswith(("flags", "Features"))]
    except OSError:
        return frozenset()
    return frozenset(lines[0].split(":", 1)[1].split()) if lines else frozenset()


class LossScale:
    """Dynamic loss scale (Micikevicius et al. 2018) in scalar variables of ours, the same on every replica.

    Starts at 2^15; halves when a gradient is not finite (that step's update is skipped), never below `LEAST`; doubles
    after 2000 steps without one, as Keras' LossScaleOptimizer.
    """

    START, LEAST, GROWTH_STEPS = 2.0**15, 2.0**-20, 2000

    def __init__(self) -> None:
        """Creates the variables; call under the strategy's scope."""
        self.scale = tf.Variable(self.START, trainable=False, name="loss_scale")
        self.good_steps = tf.Variable(0.0, trainable=False, name="loss_scale_good_steps")

    def variables(self) -> list[Any]:
        return [self.scale, self.good_steps]

    @classmethod
    def next(cls, scale: Any, good_steps: Any, finite: Any) -> tuple[Any, Any]:
        """Scale and count of good steps after a step whose gradients were all finite, or not."""
        good = good_steps + 1.0
        grow = good >= cls.GROWTH_STEPS
        after_good = tf.where(grow, scale * 2.0, scale)
        after_bad = tf.maximum(scale / 2.0, cls.LEAST)
        return tf.where(finite, after_good, after_bad), tf.where(tf.logical_and(finite, ~grow), good, 0.0)


def all_finite(gradients: Any) -> Any:
    """Whether no gradient holds an infinity or a NaN; a boolean scalar."""
    parts = [g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients]
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(part)) for part in parts])
