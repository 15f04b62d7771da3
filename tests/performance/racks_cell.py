"""A rank of the racks measurement: sums the same gradient over and over through its case's exchange, timing each sum.

The seconds of every sum go to a JSON file in the rank's folder. One sum's result is the next one's gradient, so that
none begins before the last has ended everywhere; the numbers are whole, and what they come to is checked.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from tfscale.suite import registry, worker
from tfscale.suite.plan import RankPlan

BYTES = 10_000_000
WARM_UP = 3
SUMS = 20
TIMES = "times.json"


def main(plan: RankPlan) -> int:
    worker.prepare_process(plan)
    import numpy as np
    import tensorflow as tf

    from tfscale.suite.strategies import devices

    devices.configure(plan)
    session = registry.load("strategies", plan.case.strategy)().open(plan)
    session.racks = plan.racks
    replicas = session.replicas
    add = adder(session, plan.case.exchange)
    start = np.random.default_rng(plan.rank).integers(-100, 100, BYTES // 4).astype(np.float32)
    gradient = session.per_replica([tf.constant(start)])
    seconds = []
    for _ in range(WARM_UP + SUMS):
        began = time.perf_counter()
        gradient, riders = add(gradient)
        assert float(riders.numpy()[0]) == replicas
        seconds.append(time.perf_counter() - began)
    everybody = [np.random.default_rng(rank).integers(-100, 100, BYTES // 4) for rank in range(replicas)]
    total = np.sum(everybody, axis=0) * float(replicas) ** (WARM_UP + SUMS - 1)
    right = bool(np.array_equal(gradient.numpy(), total.astype(np.float32)))
    document = {"seconds": seconds[WARM_UP:], "right": right}
    (Path(plan.directory) / TIMES).write_text(json.dumps(document))
    session.close()
    return 0


def adder(session: Any, name: str) -> Any:
    """A traced function from this replica's gradient to the sum over all, and riders that each gave 1 to."""
    import tensorflow as tf

    from tfscale.suite.exchange.base import create

    exchange = create(name)
    with session.scope():
        exchange.build(session, [tf.Variable(tf.zeros([BYTES // 4]))])

    def once(gradient: Any) -> Any:
        summed, riders = exchange.reduce(session.wire(), [tf.identity(gradient)], tf.ones([4]))
        return summed[0], riders

    return tf.function(lambda gradient: session.strategy.run(once, args=(gradient,)), autograph=False)


if __name__ == "__main__":
    sys.exit(main(RankPlan.model_validate_json(Path(sys.argv[1]).read_bytes())))
