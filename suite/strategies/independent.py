"""Replicas that run at once and exchange nothing: what sharing a machine costs, without distribution.

Every replica is a process of its own with its own model. A file in the trial's folder (suite/control.py) starts them
together and carries block size and stop; it is looked at once a block.
"""

from pathlib import Path
from typing import Any

from tfscale.suite.plan import RankPlan
from tfscale.suite.spec import Case
from tfscale.suite.strategies.base import Machine, RankLayout, Session, Strategy


class Independent(Strategy):
    """`tf.distribute.OneDeviceStrategy` in every process; throughput is the sum of all."""

    name = "independent"
    exchanges = False

    def layout(self, case: Case) -> list[RankLayout]:
        per_host = max(1, case.devices // case.hosts)
        return [RankLayout("worker", i, i // per_host, devices=1, first_replica=i) for i in range(case.devices)]

    def refuses(self, case: Case, machine: Machine) -> str | None:
        if case.devices % case.hosts:
            return f"{case.devices} replicas cannot be shared equally by {case.hosts} hosts"
        if case.exchange != "none":
            return f"exchange {case.exchange}: independent replicas exchange nothing"
        if case.collective != "auto":
            return f"collective {case.collective}: independent replicas use no collectives"
        return None

    def replicas(self, case: Case) -> int:
        return 1

    def open(self, plan: RankPlan) -> Session:
        import tensorflow as tf

        from tfscale.suite.control import Control
        from tfscale.suite.strategies import devices
        from tfscale.suite.strategies.side_by_side import SideBySideSession

        control = Control(Path(plan.trial_directory), plan.rank, plan.world, plan.measure.first_step_s)
        strategy: Any = tf.distribute.OneDeviceStrategy(devices.names(plan)[0])
        return SideBySideSession(strategy, plan.first_replica, control)
