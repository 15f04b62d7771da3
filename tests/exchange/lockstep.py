"""Replicas as threads of one process that meet at every collective: exchanges run eagerly, on exact sums. Not a test.

What a collective of n replicas gives is computed with NumPy from what all of them handed in, so that a test of an
exchange needs no tf.distribute, and every replica's own state can be looked at between steps.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from tfscale.suite.exchange.base import Exchange, create
from tfscale.suite.exchange.wire import Wire, group_of


class Meeting:
    """Where the members of a group put what they hand in, and take what comes of it."""

    def __init__(self, members: int) -> None:
        self._barrier = threading.Barrier(members, timeout=20)
        self._handed: list[Any] = [None] * members

    def meet(self, member: int, value: Any) -> list[Any]:
        self._handed[member] = value
        self._barrier.wait()
        all_values = list(self._handed)
        self._barrier.wait()
        return all_values


class LockstepWire(Wire):
    """One replica's end. `world` finds the meeting of any group of replicas."""

    def __init__(self, world: "Lockstep", members: Sequence[int], replica: int, parent: Wire | None = None) -> None:
        super().__init__(len(members), list(members).index(replica), replica, parent)
        self._world, self._members = world, tuple(members)

    def _meet(self, value: Any) -> list[Any]:
        return self._world.meeting(self._members).meet(self.replica, value)

    def _sum(self, tensors: list[Any], pack_mib: float) -> list[Any]:
        columns = zip(*self._meet(tensors), strict=True)
        return [self._one_sum(column) for column in columns]

    def _one_sum(self, column: Sequence[Any]) -> Any:
        first = column[0]
        if isinstance(first, tf.IndexedSlices):
            values = tf.concat([each.values for each in column], 0)
            return tf.IndexedSlices(values, tf.concat([each.indices for each in column], 0), first.dense_shape)
        total = sum(tf.cast(each, tf.float64) for each in column) if first.dtype.is_floating else sum(column)
        return tf.cast(total, first.dtype)

    def _gather(self, tensor: Any) -> Any:
        return tf.stack(self._meet(tensor))

    def _all_to_all(self, parts: Any) -> Any:
        return tf.stack([each[self.replica] for each in self._meet(parts)])

    def among(self, groups: Sequence[Sequence[int]]) -> Wire:
        mine = group_of(self.replica, groups, self.replicas)
        members = [self._members[number] for number in mine]
        return LockstepWire(self._world, members, self._members[self.replica], self)


class Lockstep:
    """`replicas` replicas of one exchange, each an instance of its own, as each process has."""

    def __init__(self, exchange: str | Callable[[], Exchange], replicas: int, racks: Sequence[int] = ()) -> None:
        make = (lambda: create(exchange)) if isinstance(exchange, str) else exchange
        self.replicas = replicas
        self.exchanges = [make() for _ in range(replicas)]
        self._meetings: dict[tuple[int, ...], Meeting] = {}
        self._lock = threading.Lock()
        self.payload_bytes: list[int] = []
        for exchange_ in self.exchanges:
            exchange_.build(_Session(replicas, tuple(racks)), [])

    def meeting(self, members: tuple[int, ...]) -> Meeting:
        with self._lock:
            return self._meetings.setdefault(members, Meeting(len(members)))

    def step(
        self, gradients: Sequence[Sequence[Any]], riders: Any = None, skipped: float = 0.0
    ) -> list[tuple[list[Any], Any]]:
        """One step: `gradients[replica]` are that replica's shares. The means and summed riders that each came to."""
        riders = np.zeros(4, np.float32) if riders is None else riders

        def one(replica: int) -> tuple[tuple[list[Any], Any], int]:
            wire = LockstepWire(self, range(self.replicas), replica)
            exchange = self.exchanges[replica]
            own = [each if hasattr(each, "indices") else tf.constant(each) for each in gradients[replica]]
            found = exchange.reduce(wire, own, tf.constant(riders))
            exchange.settle(replica, tf.constant(skipped))
            return found, wire.payload_bytes

        with ThreadPoolExecutor(self.replicas) as pool:
            results = list(pool.map(one, range(self.replicas)))
        self.payload_bytes = [counted for _, counted in results]
        return [found for found, _ in results]


class _Session:
    """As much of a session as an exchange asks for. Variables are plain: each instance serves one replica."""

    def __init__(self, replicas: int, racks: tuple[int, ...]) -> None:
        self.replicas, self.racks = replicas, racks
        self.local_replicas, self.first_replica = 1, 0

    def components(self, variable: Any) -> list[Any]:
        return [variable] * self.replicas
