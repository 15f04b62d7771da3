"""TPU cores: the resolver finds them, the system is initialised once, one process drives all of them.

They are those of its own host, or of every host of the slice that TPU_NAME names: a Cloud TPU, or the addresses of
servers (`grpc://host:8470,grpc://...`), as TPUClusterResolver reads it.
"""

import os
from collections.abc import Callable
from typing import Any

from tfscale.suite.plan import RankPlan
from tfscale.suite.spec import Case
from tfscale.suite.strategies.base import Machine, RankLayout, Session, Strategy


class Tpu(Strategy):
    """`tf.distribute.TPUStrategy` over the cores that TPUClusterResolver finds. Not run by the tests: no TPU there."""

    name = "tpu"

    def layout(self, case: Case) -> list[RankLayout]:
        return [RankLayout("worker", index=0, host=0, devices=case.devices, first_replica=0)]

    def refuses(self, case: Case, machine: Machine) -> str | None:
        if machine.tpus == 0:
            return "tpu: this host has no TPU (doctor says what it has)"
        if machine.tpus is not None and case.devices > machine.tpus:
            return f"{case.devices} TPU cores, and there are {machine.tpus}"
        if case.hosts != 1:
            return f"tpu: {case.hosts} hosts; TensorFlow drives a slice from one process"
        if case.xla == "none":
            return "xla none: a TPU runs only what XLA compiled; use xla: cluster"
        if case.exchange != "none":
            return f"exchange {case.exchange}: gradients between TPU cores travel inside the compiled step"
        return None

    def open(self, plan: RankPlan) -> Session:
        import tensorflow as tf

        strategy = connect(tf.distribute.cluster_resolver.TPUClusterResolver, tf.distribute.TPUStrategy, plan.devices)
        return _session(strategy, plan)


def connect(resolver_of: Callable[..., Any], strategy_of: Callable[..., Any], cores: int) -> Any:
    """Resolve, connect, initialise, and build the strategy over `cores` cores.

    Raises RuntimeError when the TPU has fewer cores than that.
    """
    import tensorflow as tf

    resolver = resolver_of(tpu=os.environ.get("TPU_NAME", "local"))
    tf.config.experimental_connect_to_cluster(resolver)
    topology = tf.tpu.experimental.initialize_tpu_system(resolver)
    there = int(topology.num_tasks * topology.num_tpus_per_task)
    if there < cores:
        raise RuntimeError(f"{cores} TPU cores are planned, the TPU has {there}")
    if there == cores:
        return strategy_of(resolver)
    assignment = tf.tpu.experimental.DeviceAssignment.build(topology, num_replicas=cores)
    return strategy_of(resolver, experimental_device_assignment=assignment)


def _session(strategy: Any, plan: RankPlan) -> Session:
    from tfscale.suite.strategies.synchronous import SynchronousSession

    class TpuSession(SynchronousSession):
        """The replica step is traced once for all cores, so a replica's variable is the distributed one itself."""

        asks_update = "kernels"

        def components(self, variable: Any) -> list[Any]:
            return [variable] * self.local_replicas

        def local_index(self) -> int:
            return 0

    return TpuSession(strategy, plan.first_replica)
