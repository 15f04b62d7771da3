"""A wire that moves nothing and keeps what it is handed: an exchange then runs on one replica alone, and can be timed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from tfscale.suite.exchange.wire import Wire, payload_of


@dataclass
class Handed:
    """What was handed to collectives, in order, and its bytes by the kind of collective: sum, gather, all_to_all."""

    tensors: list[Any] = field(default_factory=list)
    bytes: dict[str, int] = field(default_factory=dict)
    conditional: bool = False
    """Whether some was handed in under a condition: its bytes are means over steps, its tensors are not here."""

    def take(self, kind: str, tensors: Sequence[Any], share: float = 1.0, conditional: bool = False) -> None:
        self.conditional = self.conditional or conditional
        for tensor in tensors:
            sparse = isinstance(tensor, tf.IndexedSlices)  # rows are never summed on the way
            if not conditional:
                self.tensors += [tensor.values, tensor.indices] if sparse else [tensor]
            name = "gather" if sparse else kind
            self.bytes[name] = self.bytes.get(name, 0) + round(payload_of([tensor]) * share)

    def clear(self) -> None:
        self.tensors.clear()
        self.bytes.clear()
        self.conditional = False


class StillWire(Wire):
    """Every replica is taken to have handed in what this one did; sums are left as they are."""

    def __init__(self, replicas: int, replica: int, handed: Handed) -> None:
        super().__init__(replicas, replica, local=0)
        self._handed = handed
        self._conditional = False

    def sometimes(self, share: float) -> Wire:
        wire = super().sometimes(share)
        wire._conditional = True  # type: ignore[attr-defined]  # `among` makes one of this class
        return wire

    def _take(self, kind: str, tensors: Sequence[Any]) -> None:
        self._handed.take(kind, tensors, self._share, self._conditional)

    def _sum(self, tensors: list[Any], pack_mib: float) -> list[Any]:
        self._take("sum", tensors)
        return [self._gathered(each) if isinstance(each, tf.IndexedSlices) else each for each in tensors]

    def _gathered(self, rows: Any) -> Any:
        values = tf.concat([rows.values] * self.replicas, 0)
        return tf.IndexedSlices(values, tf.concat([rows.indices] * self.replicas, 0), rows.dense_shape)

    def _gather(self, tensor: Any) -> Any:
        self._take("gather", [tensor])
        return tf.stack([tensor] * self.replicas)

    def _all_to_all(self, parts: Any) -> Any:
        self._take("all_to_all", [parts])
        return parts

    def among(self, groups: Sequence[Sequence[int]]) -> Wire:
        mine = next((list(group) for group in groups if self.replica in group), None)
        if mine is None:
            raise ValueError(f"replica {self.replica} is in none of {groups}")
        return StillWire(len(mine), mine.index(self.replica), self._handed)


@dataclass(frozen=True)
class StillSession:
    """As much of a session as an exchange asks for: one local replica, whose variables are plain."""

    replicas: int
    racks: tuple[int, ...] = ()
    first_replica: int = 0
    local_replicas: int = 1

    def components(self, variable: Any) -> list[Any]:
        return [variable]
