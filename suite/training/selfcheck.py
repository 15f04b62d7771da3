"""The check that an exchange really averages: replicas given 1, 2, ..., n must all move by exactly their mean.

Equal weights afterwards would not do: a broadcast of one replica's gradient leaves them equal too. A small and a large
dense gradient are checked, because compressing exchanges leave the small one alone. An exchange that moves some elements
in a step and the others later (`Exchange.moves`) must move those by the mean, the same ones on all replicas, and the
others not at all.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import tensorflow as tf

from tfscale.suite.exchange.base import create
from tfscale.suite.rankfiles import SelfCheck
from tfscale.suite.training.optimizers import Updater
from tfscale.suite.training.rules import Sgd

if TYPE_CHECKING:
    from tfscale.suite.strategies.base import Session

ROUNDING = 1e-6
DENSE = [5]
"""Shape of the small dense probe. The sparse one has a row a replica, and one that all share."""
LARGE = [64, 64]
"""Shape of the large one: a matrix, for exchanges that know matrices only."""
KINDS = ("dense", "sparse", "large dense")


def check_aggregation(session: "Session", exchange_name: str) -> SelfCheck:
    """A step of SGD at learning rate 1 on dense and sparse probes, through an exchange of that name.

    An exchange that lets gradients wait is given the same ones until all has arrived, and judged by its mean step.
    """
    if session.averaged == 1:
        return SelfCheck(passed=None, detail="one replica: there is nothing to combine")
    exchange = create(exchange_name)
    with session.scope():
        shapes = (DENSE, [session.replicas + 1, 2], LARGE)
        probes = [tf.Variable(tf.zeros(shape)) for shape in shapes]
        updates = tf.Variable(tf.zeros([], tf.int64))
        exchange.build(session, probes)
    own = [[session.components(probe)[r] for probe in probes] for r in range(session.local_replicas)]
    own_updates = session.components(updates)
    updater = Updater(Sgd(1.0, {}), "kernels")

    def step(replica: Any) -> Any:
        gradients = shares(replica, session.replicas)
        wire, local = session.wire(), session.local_index()
        means, _ = exchange.reduce(wire, gradients, tf.zeros([4]))
        variables = own[local]
        session.update(updater, variables, [[] for _ in variables], means, tf.zeros([], tf.int64), None)
        exchange.after_update(wire, variables, own_updates[local].assign_add(1))
        exchange.settle(local, tf.zeros([]))
        return [tf.identity(variable) for variable in variables]

    results = session.run_once(step, lambda replica: tf.constant(float(replica)), times=exchange.cycle)
    moved = [[-np.asarray(part) / exchange.cycle for part in result] for result in results]
    return judge(moved, session.first_replica, session.replicas, exchange.tolerance, exchange.moves)


def shares(replica: Any, replicas: int) -> list[Any]:
    """Shares of the mean of replica number `replica` (a float scalar): (r + 1) / n everywhere, dense and sparse."""
    share = (replica + 1.0) / replicas
    rows = tf.stack([tf.cast(replica, tf.int32), replicas])
    return [
        tf.fill(DENSE, share),
        tf.IndexedSlices(tf.fill([2, 2], share), rows, tf.constant([replicas + 1, 2], tf.int64)),
        tf.fill(LARGE, share),
    ]


def expected(replicas: int) -> list[Any]:
    """How far each probe must move: the mean of 1..n; each replica's own row by its share; the shared row by the mean."""
    mean = (replicas + 1) / 2
    rows = [(r + 1) / replicas for r in range(replicas)] + [mean]
    return [np.full(DENSE, mean), np.repeat(np.array(rows)[:, None], 2, axis=1), np.full(LARGE, mean)]


def judge(
    moved: Sequence[Sequence[Any]], first: int, replicas: int, tolerance: float, moves: Literal["all", "some"] = "all"
) -> SelfCheck:
    """Compare the moves of the local replicas, [replica][probe], with what a mean gives."""
    for local, probes in enumerate(moved):
        for kind, got, want in zip(KINDS, probes, expected(replicas), strict=True):
            must = np.ones(got.shape, bool)
            if moves == "some" and kind == "large dense":
                must = moved[0][KINDS.index(kind)] != 0.0
            if not must.any():
                return SelfCheck(passed=False, detail=f"replica {first + local}, {kind} gradient: nothing moved")
            wrong = ~np.isclose(got, np.where(must, want, 0.0), rtol=tolerance + ROUNDING, atol=0.0)
            if wrong.any():
                detail = f"moved by {_text(got[wrong])}, the mean is {_text(want[wrong])}"
                return SelfCheck(passed=False, detail=f"replica {first + local}, {kind} gradient: {detail}")
    kept = f"; of the large gradient {int(must.sum())} of {must.size} elements" if moves == "some" else ""
    return SelfCheck(passed=True, detail=f"{replicas} replicas given 1..{replicas} moved by exactly their mean{kept}")


def _text(values: Any) -> str:
    return np.array2string(values.ravel()[:4], precision=6)
