"""Several devices of one process, each with its copy of the model, gradients summed between them."""

from typing import Any

from tfscale.suite.plan import RankPlan
from tfscale.suite.spec import Case
from tfscale.suite.strategies.base import Machine, RankLayout, Session, Strategy


class Mirrored(Strategy):
    """`tf.distribute.MirroredStrategy` over GPUs, or over logical CPU devices that share the process's cores."""

    name = "mirrored"
    resumes = True

    def layout(self, case: Case) -> list[RankLayout]:
        return [RankLayout("worker", index=0, host=0, devices=case.devices, first_replica=0)]

    def refuses(self, case: Case, machine: Machine) -> str | None:
        if case.hosts != 1:
            return f"mirrored runs in one process on one host, not on {case.hosts} hosts"
        return None

    def open(self, plan: RankPlan) -> Session:
        import tensorflow as tf

        from tfscale.suite.strategies import devices
        from tfscale.suite.strategies.synchronous import SynchronousSession

        names = devices.names(plan)
        operations = cross_device_ops(plan.case.collective, len(names))
        strategy = tf.distribute.MirroredStrategy(names, operations)
        return SynchronousSession(strategy, plan.first_replica, plan.case.collective)


def cross_device_ops(collective: str, devices: int) -> Any:
    """What sums gradients: NCCL where asked for by name, else TensorFlow's choice (ring collectives on CPUs)."""
    import tensorflow as tf

    if collective == "nccl":
        return tf.distribute.NcclAllReduce()
    return None
