"""Timing sums between replicas before a step is traced: what a link takes, measured the way gradients will use it.

The clock is read inside the graph, between operations that each wait for the one before, so that neither tracing nor
Python is timed. Every number is averaged over the replicas that took part, by a sum over all: all ranks know the same.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tfscale.suite.analysis.linkfit import LinkFit, Point, fit
from tfscale.suite.exchange.wire import MIB, Wire

if TYPE_CHECKING:
    from tfscale.suite.strategies.base import Session

Groups = Sequence[Sequence[int]]
Operation = Callable[[Wire, Any], Any]
"""One collective on a float32 vector: what comes out is as long as what went in."""
SMALL, MIDDLE = (1024, 16 * 1024), MIB // 4
"""Bytes of the operations that show latency, and of those that tell how large the large ones may be."""
LARGEST = 16 * MIB
TIMES = 3


def summed(wire: Wire, vector: Any) -> Any:
    return wire.sum([vector], 0)[0]


def gathered(wire: Wire, vector: Any) -> Any:
    """This replica's part of an all-gather of as many bytes in all as `vector` has."""
    part = vector[: vector.shape[0] // wire.replicas]
    return tf.reshape(wire.gather(part), [-1])


def scattered(wire: Wire, vector: Any) -> Any:
    """An all-to-all of `vector`."""
    return tf.reshape(wire.all_to_all(tf.reshape(vector, [wire.replicas, -1])), [-1])


OPERATIONS: dict[str, Operation] = {"all_reduce": summed, "all_gather": gathered, "all_to_all": scattered}


def link(session: "Session", groups: Groups, kind: str = "all_reduce", seconds: float = 0.15) -> LinkFit:
    """The link between the members of each of `groups`; see `points`."""
    return fit(points(session, groups, kind, seconds), kind, len(max(groups, key=len)))


def points(session: "Session", groups: Groups, kind: str = "all_reduce", seconds: float = 0.15) -> list[Point]:
    """Timed operations within each of `groups`, all groups of two and more at once and of one size.

    `groups` divide the job's replicas. A large operation is to take about `seconds`; on a link so slow that even
    MIDDLE takes longer, that size is the largest. Called by all ranks at once, outside of any replica context.
    """
    found = _timed(session, groups, kind, (*SMALL, MIDDLE))
    size = MIDDLE
    while size < LARGEST and found[-1].seconds * 2 * size / MIDDLE <= seconds:
        size *= 2
    return found if size == MIDDLE else found + _timed(session, groups, kind, (size,))


def mean(session: "Session", values: Sequence[float]) -> list[float]:
    """Means over all replicas, of numbers that each rank has its own of."""

    def replica(mine: Any) -> Any:
        return session.wire().sum([tf.identity(mine)], 0)[0] / session.replicas

    (first, *_) = session.run_once(replica, lambda number: tf.constant(values, tf.float64))
    return [float(value) for value in first.numpy()]


def _timed(session: "Session", groups: Groups, kind: str, sizes: Sequence[int]) -> list[Point]:
    """The median of TIMES operations of about each of those sizes, each the mean over the replicas that take part.

    One more comes before each size: it opens connections, and lets TCP find its pace.
    """
    ranks = len(max(groups, key=len))
    sizes = [-(-size // (4 * ranks)) * ranks for size in sizes]
    lengths = [size for size in sizes for _ in range(TIMES)]
    together = sum(len(group) for group in groups if len(group) > 1)

    def replica(value: Any) -> Any:
        whole = session.wire()
        joins = next(group for group in groups if whole.replica in group)
        (met,) = whole.sum([tf.ones([1]) + value], 0)
        durations = tf.zeros([len(lengths)])
        if len(joins) > 1:
            wire = whole if len(joins) == whole.replicas else whole.among(groups)
            durations = _stamped(wire, OPERATIONS[kind], met, lengths)
        with tf.control_dependencies([durations]):
            return whole.sum([tf.identity(durations)], 0)[0] / together

    (first, *_) = session.run_once(replica, lambda number: tf.constant(0.0))
    medians = np.median(first.numpy().reshape([-1, TIMES]), axis=1)
    return [Point(4 * size, float(median)) for size, median in zip(sizes, medians, strict=True)]


def _stamped(wire: Wire, operation: Operation, start: Any, lengths: Sequence[int]) -> Any:
    """Seconds of operations on vectors of those lengths, float32; `start` is a vector that the first one waits for."""
    durations = []
    vector = tf.repeat(start, lengths[0])
    for number, length in enumerate(lengths):
        if number == 0 or length != lengths[number - 1]:
            vector = operation(wire, tf.repeat(vector[:1], length))
        with tf.control_dependencies([vector]):
            began = tf.timestamp()
        _in_step()
        with tf.control_dependencies([began]):
            vector = operation(wire, tf.identity(vector))
        with tf.control_dependencies([vector]):
            durations.append(tf.timestamp() - began)
    return tf.cast(tf.stack(durations), tf.float32)


def _in_step() -> None:
    """Let the other replicas of this process trace as far as this one has.

    Within a function TensorFlow orders readings of the clock as they were traced: a replica traced to its end would
    first wait for its partner, whose first reading then waits for it.
    """
    tf.distribute.get_replica_context().merge_call(lambda strategy: None)
