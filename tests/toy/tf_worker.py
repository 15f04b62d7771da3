"""A worker on real TensorFlow without a model: MultiWorkerMirroredStrategy and an all-reduce a step. Not a test module.

`preset` is `good` or `<what>@<rank>`, as for toy_worker: what really happens to TensorFlow's runtime is the point here.
"""

import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tfscale.suite import faults
from tfscale.suite.events import EventLog
from tfscale.suite.plan import RankPlan

STEPS = 400


def main(plan: RankPlan) -> int:
    log = EventLog(Path(plan.directory))
    what, _, where = plan.case.preset.partition("@")
    fault = what if where and int(where) == plan.rank else ""
    if fault == "absent":
        time.sleep(600)
    log.phase("started")
    try:
        train(plan, log, fault)
    except Exception as error:
        log.error(*faults.describe(error))
        raise
    log.phase("done")
    return 0


def train(plan: RankPlan, log: EventLog, fault: str) -> None:
    import tensorflow as tf

    from tfscale.suite.strategies import devices

    log.phase("imported")
    assert plan.tf_config is not None
    os.environ["TF_CONFIG"] = plan.tf_config
    devices.configure(plan)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    log.phase("joined", replicas=strategy.num_replicas_in_sync)

    @tf.function
    def step() -> Any:
        def replica() -> Any:
            return tf.distribute.get_replica_context().all_reduce("sum", tf.ones([1000]))

        return strategy.run(replica)

    for number in range(STEPS):
        total = float(step()[0])
        assert total == strategy.num_replicas_in_sync
        if number == 0:
            log.phase("first_step")
            log.phase("steady")
        log.progress(number + 1, 0.01)
        if number == 20 and fault:
            misbehave(fault)
        time.sleep(0.002)
    for phase in ("timed", "written"):
        log.phase(phase)


def misbehave(fault: str) -> None:
    import tensorflow as tf

    if fault in ("killed", "frozen"):
        os.kill(os.getpid(), signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
    elif fault == "memory":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (1 << 29)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        print(tf.reduce_sum(tf.zeros([1 << 32], tf.uint8)))
    elif fault == "sleeps":
        time.sleep(600)


if __name__ == "__main__":
    sys.exit(main(RankPlan.model_validate_json(Path(sys.argv[1]).read_bytes())))
