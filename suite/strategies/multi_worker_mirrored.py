"""Several processes, each with one or more devices and its copy of the model, gradients summed by collectives."""

import os
import time
from typing import Any

from tfscale.suite.plan import RankPlan
from tfscale.suite.spec import Case, Collective
from tfscale.suite.strategies.base import Machine, RankLayout, Session, Strategy

LEADER_STAYS_S = 0.25
"""How much longer the leader lives after all ranks have met for the last time."""


class MultiWorkerMirrored(Strategy):
    """`tf.distribute.MultiWorkerMirroredStrategy`, a process per device or per host."""

    name = "multi_worker_mirrored"
    resumes = True

    def layout(self, case: Case) -> list[RankLayout]:
        per_host = case.devices // case.hosts
        each = per_host if case.ranks == "host" else 1
        return [
            RankLayout("worker", index=index, host=first // per_host, devices=each, first_replica=first)
            for index, first in enumerate(range(0, case.devices, each))
        ]

    def refuses(self, case: Case, machine: Machine) -> str | None:
        if case.devices % case.hosts:
            return f"{case.devices} devices cannot be shared equally by {case.hosts} hosts"
        if case.ranks == "host" and case.devices > case.hosts and not machine.gpus:
            return "TensorFlow gives a multi_worker_mirrored process one CPU device: use ranks: device"
        if case.collective == "nccl" and not machine.gpus:
            return "nccl needs GPUs; TensorFlow would run its ring on CPUs under that name"
        return None

    def open(self, plan: RankPlan) -> Session:
        if plan.tf_config is not None:
            os.environ["TF_CONFIG"] = plan.tf_config
        import tensorflow as tf

        # The constructor starts this rank's server and waits for its peers, for ever; the engine has the deadline.
        options = tf.distribute.experimental.CommunicationOptions(implementation=implementation(plan.case.collective))
        strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
        return _session(strategy, plan)


def _session(strategy: Any, plan: RankPlan) -> Session:
    from tfscale.suite.strategies.synchronous import SynchronousSession

    class MultiWorkerSession(SynchronousSession):
        """Leaves together with its peers, the leader last: it runs the service that the others report to."""

        def close(self) -> None:
            self.barrier()
            if plan.rank == 0:
                time.sleep(LEADER_STAYS_S)

    return MultiWorkerSession(strategy, plan.first_replica, plan.case.collective)


def implementation(collective: Collective) -> Any:
    """TensorFlow's name for a `collective` value of a case."""
    import tensorflow as tf

    names = tf.distribute.experimental.CommunicationImplementation
    return {"auto": names.AUTO, "ring": names.RING, "nccl": names.NCCL}[collective]
