"""Devices and threads of one rank's TensorFlow runtime, set before anything starts it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfscale.suite.plan import RankPlan


def configure(plan: "RankPlan") -> None:
    """Threads for the rank's cores; as many logical CPU devices as it drives, or its GPUs with growing memory.

    Raises RuntimeError when the runtime has already started, or when fewer GPUs are visible than planned.
    """
    import tensorflow as tf

    threads = len(plan.cores) or None
    if threads:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    if plan.accelerator == "gpu":
        _use_gpus(plan.devices)
    elif plan.accelerator == "cpu":
        tf.config.set_visible_devices([], "GPU")
        if plan.devices > 1:
            cpu = tf.config.list_physical_devices("CPU")[0]
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * plan.devices)


def _use_gpus(count: int) -> None:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if len(gpus) < count:
        raise RuntimeError(f"{count} GPUs are planned for this rank, TensorFlow sees {len(gpus)}")
    tf.config.set_visible_devices(gpus[:count], "GPU")
    for gpu in gpus[:count]:
        tf.config.experimental.set_memory_growth(gpu, True)


def names(plan: "RankPlan") -> list[str]:
    """TensorFlow names of the devices that this rank drives."""
    kind = "GPU" if plan.accelerator == "gpu" else "CPU"
    return [f"/device:{kind}:{index}" for index in range(plan.devices)]
