"""Variables on the host's CPU, compute on several devices: each step copies them out and gradients back."""

from typing import Any

from tfscale.suite.plan import RankPlan
from tfscale.suite.spec import Case
from tfscale.suite.strategies.base import Machine, RankLayout, Session, Strategy


class CentralStorage(Strategy):
    """`tf.distribute.experimental.CentralStorageStrategy`, variables on the CPU."""

    name = "central_storage"
    resumes = True

    def layout(self, case: Case) -> list[RankLayout]:
        return [RankLayout("worker", index=0, host=0, devices=case.devices, first_replica=0)]

    def refuses(self, case: Case, machine: Machine) -> str | None:
        if case.hosts != 1:
            return f"central_storage runs in one process on one host, not on {case.hosts} hosts"
        if case.exchange != "none":
            return f"exchange {case.exchange}: central_storage adds gradients up where the variable is"
        if case.xla == "cluster" and (case.devices > 1 or machine.gpus):
            return "xla cluster: a compiled function cannot read variables of another device"
        return None

    def open(self, plan: RankPlan) -> Session:
        import tensorflow as tf

        from tfscale.suite.strategies import devices

        # Without names TensorFlow takes one CPU device, however many there are.
        strategy = tf.distribute.experimental.CentralStorageStrategy(devices.names(plan), "/device:CPU:0")
        return _session(strategy, plan)


def _session(strategy: Any, plan: RankPlan) -> Session:
    from tfscale.suite.strategies.synchronous import SynchronousSession

    class CentralStorageSession(SynchronousSession):
        """One copy of every variable: the first replica updates it, with the mean that all have."""

        asks_update = "kernels"

        def components(self, variable: Any) -> list[Any]:
            # With several replicas TensorFlow wraps the variable, and the wrapper refuses updates from a replica.
            return [variable.get() if hasattr(variable, "get") else variable] * self.local_replicas

        def update(self, updater: Any, variables: Any, slots: Any, gradients: Any, step: Any, scale: Any) -> None:
            if self.local_index() == 0:
                updater.apply(variables, slots, gradients, step, scale)

    return CentralStorageSession(strategy, plan.first_replica)
