"""Asynchronous training: a coordinator schedules steps on workers, parameter servers hold the variables.

Rank 0 is the coordinator. Workers and servers only serve, until the coordinator leaves its marker in the trial's
folder. A step is one completed step of any worker, on that worker's batch, and its update is applied at once.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from tfscale.suite.plan import RankPlan
from tfscale.suite.spec import Case
from tfscale.suite.strategies.base import Machine, RankLayout, Session, Strategy

MARKER = "coordinator-left"
POLL_S = 0.02


def servers(case: Case) -> int:
    """Parameter servers of a case: as many as workers up to 2 (so that tables are sharded), then one for four workers."""
    return max(min(2, case.devices), case.devices // 4)


class ParameterServer(Strategy):
    """`tf.distribute.ParameterServerStrategy` with a ClusterCoordinator, every role a process of its own."""

    name = "parameter_server"
    synchronous = False
    exchanges = False

    def layout(self, case: Case) -> list[RankLayout]:
        per_host = max(1, case.devices // case.hosts)
        workers = [RankLayout("worker", i, i // per_host, devices=1, first_replica=i) for i in range(case.devices)]
        ps = [RankLayout("ps", i, i % case.hosts, devices=0, first_replica=0) for i in range(servers(case))]
        return [RankLayout("coordinator", index=0, host=0, devices=0, first_replica=0), *workers, *ps]

    def refuses(self, case: Case, machine: Machine) -> str | None:
        if case.devices % case.hosts:
            return f"{case.devices} workers cannot be shared equally by {case.hosts} hosts"
        if case.ranks == "host" and case.devices > case.hosts:
            return "a parameter_server worker drives one device (Keras 3 fails with several): use ranks: device"
        if case.exchange != "none":
            return (
                f"exchange {case.exchange}: parameter_server sends each gradient to its variable, nothing is averaged"
            )
        if case.xla == "cluster":
            return "xla cluster: a compiled function cannot read variables of another process"
        if case.collective != "auto":
            return f"collective {case.collective}: parameter_server uses no collectives"
        return None

    def serves(self, plan: RankPlan) -> bool:
        return plan.role != "coordinator"

    def serve(self, plan: RankPlan, joined: Callable[[], None]) -> None:
        """Run a TensorFlow server until the marker is there."""
        import tensorflow as tf

        config = tf.compat.v1.ConfigProto()
        config.inter_op_parallelism_threads = max(len(plan.cores), len(plan.cluster["worker"]) + 1)
        config.intra_op_parallelism_threads = len(plan.cores)
        server = tf.distribute.Server(
            tf.train.ClusterSpec(plan.cluster), job_name=plan.role, task_index=plan.role_index, config=config
        )
        joined()
        marker = Path(plan.trial_directory) / MARKER
        while not marker.exists():
            time.sleep(POLL_S)
        del server

    def open(self, plan: RankPlan) -> Session:
        assert plan.tf_config is not None, "parameter_server is planned with a cluster"
        os.environ["TF_CONFIG"] = plan.tf_config
        from tfscale.suite.strategies.scheduled import ScheduledSession

        return ScheduledSession(plan, servers(plan.case))

    def release(self, plan: RankPlan) -> None:
        """Let the serving ranks end."""
        if plan.role == "coordinator":
            (Path(plan.trial_directory) / MARKER).touch()
