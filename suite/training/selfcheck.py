"""The check that an exchange really averages: replicas given 1, 2, ..., n must all move by exactly their mean.

Equal weights afterwards would not do: a broadcast of one replica's gradient leaves them equal too.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tfscale.suite.exchange.base import create
from tfscale.suite.rankfiles import SelfCheck
from tfscale.suite.training.optimizers import Updater
from tfscale.suite.training.rules import Sgd

if TYPE_CHECKING:
    from tfscale.suite.strategies.base import Session

ROUNDING = 1e-6
DENSE = 5
"""Elements of the dense probe. The sparse one has a row a replica, and one that all share."""


def check_aggregation(session: "Session", exchange_name: str) -> SelfCheck:
    """One step of SGD at learning rate 1 on a dense and a sparse probe, through an exchange of that name."""
    if session.averaged == 1:
        return SelfCheck(passed=None, detail="one replica: there is nothing to combine")
    exchange = create(exchange_name)
    with session.scope():
        probes = [tf.Variable(tf.zeros([DENSE])), tf.Variable(tf.zeros([session.replicas + 1, 2]))]
        exchange.build(session, probes)
    own = [[session.components(probe)[r] for probe in probes] for r in range(session.local_replicas)]
    updater = Updater(Sgd(1.0, {}), "kernels")

    def step(replica: Any) -> Any:
        gradients = shares(replica, session.replicas)
        means, _ = exchange.reduce(session.wire(), gradients, tf.zeros([4]))
        variables = own[session.local_index()]
        session.update(updater, variables, [[], []], means, tf.zeros([], tf.int64), None)
        return [tf.identity(variable) for variable in variables]

    results = session.run_once(step, lambda replica: tf.constant(float(replica)))
    moved = [[-np.asarray(part) for part in result] for result in results]
    return judge(moved, session.first_replica, session.replicas, exchange.tolerance)


def shares(replica: Any, replicas: int) -> list[Any]:
    """Shares of the mean of replica number `replica` (a float scalar): (r + 1) / n everywhere, dense and sparse."""
    share = (replica + 1.0) / replicas
    rows = tf.stack([tf.cast(replica, tf.int32), replicas])
    return [
        tf.fill([DENSE], share),
        tf.IndexedSlices(tf.fill([2, 2], share), rows, tf.constant([replicas + 1, 2], tf.int64)),
    ]


def expected(replicas: int) -> list[Any]:
    """How far each probe must move: the mean of 1..n; each replica's own row by its share; the shared row by the mean."""
    mean = (replicas + 1) / 2
    rows = [(r + 1) / replicas for r in range(replicas)] + [mean]
    return [np.full(DENSE, mean), np.repeat(np.array(rows)[:, None], 2, axis=1)]


def judge(moved: Sequence[Sequence[Any]], first: int, replicas: int, tolerance: float) -> SelfCheck:
    """Compare the moves of the local replicas, [replica][probe], with what a mean gives."""
    bound = tolerance + ROUNDING
    for local, probes in enumerate(moved):
        for kind, got, want in zip(("dense", "sparse"), probes, expected(replicas), strict=True):
            if not np.allclose(got, want, rtol=bound, atol=0.0):
                got_text = np.array2string(np.asarray(got).ravel()[:4], precision=6)
                want_text = np.array2string(want.ravel()[:4], precision=6)
                detail = f"replica {first + local}, {kind} gradient: moved by {got_text}, the mean is {want_text}"
                return SelfCheck(passed=False, detail=detail)
    return SelfCheck(passed=True, detail=f"{replicas} replicas given 1..{replicas} moved by exactly their mean")
