"""The wire of a synchronous tf.distribute strategy, seen from one replica of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfscale.suite.exchange.wire import MIB, Wire

if TYPE_CHECKING:
    from tfscale.suite.strategies.base import Session


class StrategyWire(Wire):
    """Sums and gathers are the strategy's own collectives; the others go to a group of all replicas."""

    def __init__(self, session: "Session", replica: int, local: int) -> None:
        super().__init__(session.replicas, replica, local)
        self._session = session
        self._context = tf.distribute.get_replica_context()

    def _sum(self, tensors: list[Any], pack_mib: float) -> list[Any]:
        summed = self._context.all_reduce(tf.distribute.ReduceOp.SUM, tensors, pack_options(pack_mib))
        return list(summed)

    def _gather(self, tensor: Any) -> Any:
        gathered = self._context.all_gather(tf.expand_dims(tensor, 0), axis=0)
        return tf.ensure_shape(gathered, [self.replicas, *tensor.shape])

    def _all_to_all(self, parts: Any) -> Any:
        raise NotImplementedError

    def among(self, groups: Sequence[Sequence[int]]) -> Wire:
        raise NotImplementedError


def pack_options(pack_mib: float) -> Any:
    """TensorFlow's options for collectives of at most `pack_mib` MiB each."""
    return tf.distribute.experimental.CommunicationOptions(bytes_per_pack=int(pack_mib * MIB))
