"""What carries an exchange's tensors between replicas: the collectives, and the count of the bytes handed to them.

A wire is made for one trace of one replica. Every replica of the job must make the same calls in the same order with
the same shapes: that is what lets collectives find their partners.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

MIB = 1024 * 1024
PACK_MIB = 25.0


class Wire(ABC):
    """Collectives over `replicas` replicas. Public methods count bytes; subclasses move them."""

    def __init__(self, replicas: int, replica: int, local: int) -> None:
        self.replicas = replicas
        self.replica = replica
        """Number of this replica among those of the wire, known while tracing."""
        self.local = local
        """Its number among the replicas of this process: which state is its own."""
        self.payload_bytes = 0
        """Bytes that this replica has handed to collectives so far, counted at their inputs."""

    def sum(self, tensors: Sequence[Any], pack_mib: float = PACK_MIB) -> list[Any]:
        """Sums over replicas of dense tensors and IndexedSlices (those are gathered: every replica's rows, in rank order).

        Tensors travel together in packs of at most `pack_mib` MiB (0: one pack), the last of the list first.
        """
        self.payload_bytes += payload_of(tensors)
        return self._sum(list(tensors), pack_mib) if tensors else []

    def gather(self, tensor: Any) -> Any:
        """The tensors of all replicas, [replicas, *shape], in order of their numbers. Every replica's has one shape."""
        self.payload_bytes += payload_of([tensor])
        return self._gather(tensor)

    def all_to_all(self, parts: Any) -> Any:
        """From [replicas, *shape] to the same shape: part i goes to replica i, and what comes from replica j is part j."""
        self.payload_bytes += payload_of([parts])
        return self._all_to_all(parts)

    @abstractmethod
    def _sum(self, tensors: list[Any], pack_mib: float) -> list[Any]: ...

    @abstractmethod
    def _gather(self, tensor: Any) -> Any: ...

    @abstractmethod
    def _all_to_all(self, parts: Any) -> Any: ...

    @abstractmethod
    def among(self, groups: Sequence[Sequence[int]]) -> "Wire":
        """A wire over this replica's group only. `groups` divides all replicas' numbers; every replica names the same.

        Its bytes count here too. Raises ValueError when this replica is in none of them.
        """


class Alone(Wire):
    """The wire of a replica that trains on its own: sums are what it has."""

    def __init__(self, local: int = 0) -> None:
        super().__init__(1, 0, local)

    def sum(self, tensors: Sequence[Any], pack_mib: float = PACK_MIB) -> list[Any]:
        return list(tensors)

    def _sum(self, tensors: list[Any], pack_mib: float) -> list[Any]:
        return tensors

    def _gather(self, tensor: Any) -> Any:
        import tensorflow as tf

        return tf.expand_dims(tensor, 0)

    def _all_to_all(self, parts: Any) -> Any:
        return parts

    def among(self, groups: Sequence[Sequence[int]]) -> Wire:
        if list(map(list, groups)) != [[0]]:
            raise ValueError(f"groups {groups} of one replica")
        return self


def payload_of(tensors: Sequence[Any]) -> int:
    """Bytes of tensors and IndexedSlices (values and indices) whose static shapes are known; unknown ones raise ValueError."""
    total = 0
    for tensor in tensors:
        for part in (tensor.values, tensor.indices) if hasattr(tensor, "indices") else (tensor,):
            elements = part.shape.num_elements()
            if elements is None:
                raise ValueError(f"the shape {part.shape} of a gradient is not known when the step is traced")
            total += elements * part.dtype.size
    return total
