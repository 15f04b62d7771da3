"""The wire of a synchronous tf.distribute strategy, seen from one replica of it."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfscale.suite.exchange.groupwire import GroupWire
from tfscale.suite.exchange.wire import MIB, Wire, group_of

if TYPE_CHECKING:
    from tfscale.suite.strategies.synchronous import SynchronousSession


class StrategyWire(Wire):
    """Sums are the strategy's own collectives; the others go to a group of all replicas.

    TensorFlow's all-gather in replica context first asks all replicas for their shapes, pads, and copies three times;
    the replicas of a wire have one shape.
    """

    def __init__(self, session: "SynchronousSession", replica: int, local: int) -> None:
        super().__init__(session.replicas, replica, local)
        self._session = session
        self._context = tf.distribute.get_replica_context()

    @cached_property
    def _all(self) -> GroupWire:
        return self._group(range(self.replicas))

    def _group(self, members: Sequence[int], parent: Wire | None = None) -> GroupWire:
        return GroupWire(self._session.groups, members, self.replica, self.local, parent)

    def _sum(self, tensors: list[Any], pack_mib: float) -> list[Any]:
        summed = self._context.all_reduce(tf.distribute.ReduceOp.SUM, tensors, pack_options(pack_mib))
        return list(summed)

    def _gather(self, tensor: Any) -> Any:
        return self._all._gather(tensor)

    def _all_to_all(self, parts: Any) -> Any:
        return self._all._all_to_all(parts)

    def _reduce_scatter(self, parts: Any) -> Any:
        return self._all._reduce_scatter(parts)

    def among(self, groups: Sequence[Sequence[int]]) -> Wire:
        return self._group(group_of(self.replica, groups, self.replicas), self)


def pack_options(pack_mib: float) -> Any:
    """TensorFlow's options for collectives of at most `pack_mib` MiB each."""
    return tf.distribute.experimental.CommunicationOptions(bytes_per_pack=int(pack_mib * MIB))
