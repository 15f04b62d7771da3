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
    """Collectives over `replicas` replicas. Public methods count bytes; subclasses move them.

    What one wire carries travels in the order of the calls; what two wires carry does not wait for each other.
    """

    def __init__(self, replicas: int, replica: int, local: int, parent: "Wire | None" = None) -> None:
        self.replicas = replicas
        self.replica = replica
        """Number of this replica among those of the wire, known while tracing."""
        self.local = local
        """Its number among the replicas of this process: which state is its own."""
        self.payload_bytes = 0
        """Bytes that this replica has handed to collectives so far, counted at their inputs; also over parts of this wire."""
        self._parent = parent
        self._share = 1.0

    def sum(self, tensors: Sequence[Any], pack_mib: float = PACK_MIB) -> list[Any]:
        """Sums over replicas of dense tensors and IndexedSlices (those are gathered: every replica's rows, in rank order).

        Tensors travel together in packs of at most `pack_mib` MiB (0: one pack), the last of the list first.
        """
        self._count(tensors)
        return self._sum(list(tensors), pack_mib) if tensors else []

    def gather(self, tensor: Any) -> Any:
        """The tensors of all replicas, [replicas, *shape], in order of their numbers. Every replica's has one shape."""
        self._count([tensor])
        return self._gather(tensor)

    def all_to_all(self, parts: Any) -> Any:
        """From [replicas, *shape] to the same shape: part i goes to replica i, and what comes from replica j is part j."""
        self._count([parts])
        return self._all_to_all(parts)

    def reduce_scatter(self, parts: Any) -> Any:
        """From [replicas, *shape] to shape: the sum over replicas of the part that has this replica's number."""
        self._count([parts])
        return self._reduce_scatter(parts)

    def sometimes(self, share: float) -> "Wire":
        """A wire between the same replicas, for collectives that run under a condition, in that share of the steps.

        All replicas must find the condition true in the same steps. Bytes count as their mean over steps. A wire of its
        own, because collectives of tf.distribute may stand under no condition where a process has several replicas.
        """
        wire = self.among([list(range(self.replicas))])
        wire._share = self._share * share
        return wire

    def _count(self, tensors: Sequence[Any]) -> None:
        handed = round(payload_of(tensors) * self._share)
        wire: Wire | None = self
        while wire is not None:
            wire.payload_bytes += handed
            wire = wire._parent

    @abstractmethod
    def _sum(self, tensors: list[Any], pack_mib: float) -> list[Any]: ...

    @abstractmethod
    def _gather(self, tensor: Any) -> Any: ...

    @abstractmethod
    def _all_to_all(self, parts: Any) -> Any: ...

    def _reduce_scatter(self, parts: Any) -> Any:
        import tensorflow as tf

        return tf.reduce_sum(self._all_to_all(parts), 0)

    @abstractmethod
    def among(self, groups: Sequence[Sequence[int]]) -> "Wire":
        """A new wire over this replica's group only. `groups` divides all replicas' numbers; every replica names the same.

        Its bytes count here too. Raises ValueError when the groups do not divide them (see `group_of`).
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
        group_of(0, groups, 1)
        return self


def group_of(replica: int, groups: Sequence[Sequence[int]], replicas: int) -> tuple[int, ...]:
    """The one of `groups` that holds `replica`.

    Raises ValueError unless every number below `replicas` is in exactly one group, and each group ascends: the order
    within a group is that of the collectives, which TensorFlow takes from its devices.
    """
    if sorted(number for group in groups for number in group) != list(range(replicas)):
        raise ValueError(f"groups {[list(group) for group in groups]} do not divide the replicas 0 to {replicas - 1}")
    for group in groups:
        if list(group) != sorted(group):
            raise ValueError(f"group {list(group)} is not in ascending order")
    return next(tuple(group) for group in groups if replica in group)


def in_reverse(sizes: Sequence[int], limit: float, kinds: Sequence[Any] | None = None) -> list[list[int]]:
    """Places that travel together, from the last to the first: neighbours of one kind, of at most `limit` bytes in all.

    `sizes` in bytes; a larger one goes alone. That is the order in which the backward pass ends.
    """
    packs: list[list[int]] = []
    filled = 0
    for place in reversed(range(len(sizes))):
        same = packs and (kinds is None or kinds[place] == kinds[packs[-1][0]])
        if not same or filled + sizes[place] > limit:
            packs.append([])
            filled = 0
        packs[-1].append(place)
        filled += sizes[place]
    return packs


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
