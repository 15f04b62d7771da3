"""One device, no distribution: the baseline that scaling efficiency is measured against."""

from tfscale.suite.plan import RankPlan
from tfscale.suite.spec import Case
from tfscale.suite.strategies.base import Machine, RankLayout, Session, Strategy


class OneDevice(Strategy):
    """`tf.distribute.OneDeviceStrategy`."""

    name = "one_device"
    resumes = True
    exchanges = False

    def layout(self, case: Case) -> list[RankLayout]:
        return [RankLayout("worker", index=0, host=0, devices=1, first_replica=0)]

    def refuses(self, case: Case, machine: Machine) -> str | None:
        return f"one_device drives 1 device, not {case.devices}" if case.devices != 1 else None

    def open(self, plan: RankPlan) -> Session:
        import tensorflow as tf

        from tfscale.suite.strategies import devices
        from tfscale.suite.strategies.synchronous import SynchronousSession

        device = devices.names(plan)[0]
        return SynchronousSession(tf.distribute.OneDeviceStrategy(device), plan.first_replica)
