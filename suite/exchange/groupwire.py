"""Collectives over any group of a job's replicas, by TensorFlow's raw ops: tf.distribute knows the whole job only.

A collective finds its partners by two numbers that all members must name alike. The group key follows from the members,
so that it needs no talk; the instance key counts the collectives that a replica has traced with that group. It is a
constant of the graph: when a traced step runs again the same collectives meet again, in the same order, and TensorFlow
need not ask the leader of the job who the partners are, as it does for every new instance.
"""

import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from tfscale.suite.exchange.wire import MIB, Wire, group_of, in_reverse, payload_of

KEYS_FROM = 1 << 30
"""Group keys start here; TensorFlow's own count up from 1."""
INSTANCES_FROM = 1_000_000
"""Instance keys have seven digits: all-to-all writes instance and ranks into one name without a mark between them."""
NO_TIMEOUT = 0.0
"""TensorFlow gives every collective with a timeout two threads that sleep until it is over, though it ended long before:
200 sums of two replicas with 60 s left 800 threads. A hang is ended by the deadlines of the case, from outside."""
MOST_IN_A_PROCESS = 10
"""Replicas of one process that CPU all-to-all can tell apart: in its names, ranks 1 and 12 look like 11 and 2."""


class Groups:
    """What the group wires of one process have in common. `devices`: of its replicas, in order; `hint`: as `collective`."""

    def __init__(self, devices: Sequence[str], hint: str = "auto") -> None:
        self._devices = tuple(devices)
        self.on_gpu = any("GPU" in device.upper() for device in devices)
        self.hint = hint
        self._members: dict[int, tuple[int, ...]] = {}
        self._instances: dict[tuple[int, int], Iterator[int]] = {}
        self._tokens: dict[Any, Any] = {}
        self._names = itertools.count()

    @property
    def local_replicas(self) -> int:
        return len(self._devices)

    def key(self, members: tuple[int, ...]) -> int:
        """The key of the group of those replicas. Raises RuntimeError when two groups of this process have the same."""
        key = group_key(members, "GPU" if self.on_gpu else "CPU")
        if self._members.setdefault(key, members) != members:
            raise RuntimeError(f"replicas {members} and {self._members[key]} have the same group key {key}")
        return key

    def instance(self, key: int, replica: int) -> int:
        """The next instance key of that replica in that group; every replica counts for itself."""
        return next(self._instances.setdefault((key, replica), itertools.count(INSTANCES_FROM)))

    def token(self, local: int) -> Any:
        """A resource that orders the collectives which take it, and only those.

        Without one TensorFlow orders every collective of a graph after the one before, so that two replicas of one
        process wait for each other for ever. On GPUs all wires of a replica share one: communicators of NCCL must not
        run in different orders on different replicas.
        """
        owner = local if self.on_gpu else next(self._names)
        if owner not in self._tokens:
            with tf.init_scope(), tf.device(self._devices[local]):
                name = f"exchange/order/{local}/{owner}"
                self._tokens[owner] = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name=name)
        return self._tokens[owner]


def group_key(members: Sequence[int], kind: str) -> int:
    """A key that every member comes to on its own: a 30-bit checksum of the device kind and the members, from 2^30 on."""
    text = f"{kind}:{','.join(map(str, members))}"
    return KEYS_FROM + zlib.crc32(text.encode()) % KEYS_FROM


class GroupWire(Wire):
    """The wire between `members` (numbers in the whole job, ascending), seen from replica `number` of the job."""

    def __init__(
        self, groups: Groups, members: Sequence[int], number: int, local: int, parent: Wire | None = None
    ) -> None:
        super().__init__(len(members), list(members).index(number), local, parent)
        self._groups, self._members, self._number = groups, tuple(members), number
        self._key = groups.key(self._members)
        self._token = groups.token(local) if self.replicas > 1 else None

    def among(self, groups: Sequence[Sequence[int]]) -> Wire:
        mine = group_of(self.replica, groups, self.replicas)
        members = [self._members[place] for place in mine]
        return GroupWire(self._groups, members, self._number, self.local, self)

    def _sum(self, tensors: list[Any], pack_mib: float) -> list[Any]:
        if self.replicas == 1:
            return tensors
        summed: dict[int, Any] = {}
        dense = [place for place, tensor in enumerate(tensors) if not isinstance(tensor, tf.IndexedSlices)]
        for places in packs([tensors[place] for place in dense], pack_mib):
            pack = [dense[place] for place in places]
            summed.update(zip(pack, self._sum_pack([tensors[place] for place in pack]), strict=True))
        for place, tensor in enumerate(tensors):
            if place not in summed:
                values, indices = self._joined(tensor.values), self._joined(tensor.indices)
                summed[place] = tf.IndexedSlices(values, indices, tensor.dense_shape)
        return [summed[place] for place in range(len(tensors))]

    def _sum_pack(self, tensors: list[Any]) -> list[Any]:
        if len(tensors) == 1:
            return [self._reduced(tensors[0])]
        total = self._reduced(tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0))
        parts = tf.split(total, [tensor.shape.num_elements() for tensor in tensors])
        return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def _reduced(self, tensor: Any) -> Any:
        reduced = tf.raw_ops.CollectiveReduceV2(input=tensor, merge_op="Add", final_op="Id", **self._next())
        return tf.ensure_shape(reduced, tensor.shape)

    def _joined(self, tensor: Any) -> Any:
        """The tensors of all members, one after the other along the first dimension."""
        half = tf.bitcast(tensor, tf.float16) if tensor.dtype == tf.bfloat16 else tensor  # a kernel for one, not both
        joined = tf.raw_ops.CollectiveGatherV2(input=half, **self._next())
        joined = tf.ensure_shape(joined, [self.replicas * tensor.shape[0], *tensor.shape[1:]])
        return tf.bitcast(joined, tf.bfloat16) if tensor.dtype == tf.bfloat16 else joined

    def _gather(self, tensor: Any) -> Any:
        one = tf.expand_dims(tensor, 0)
        return one if self.replicas == 1 else self._joined(one)

    def _all_to_all(self, parts: Any) -> Any:
        if self.replicas == 1:
            return parts
        if self._groups.local_replicas > MOST_IN_A_PROCESS and not self._groups.on_gpu:
            return self._gather(parts)[:, self.replica]
        return tf.ensure_shape(tf.raw_ops.CollectiveAllToAllV2(input=parts, **self._next()), parts.shape)

    def _reduce_scatter(self, parts: Any) -> Any:
        if not self._groups.on_gpu or self.replicas == 1:
            return super()._reduce_scatter(parts)  # TensorFlow has no kernel for it on CPUs
        part = tf.raw_ops.CollectiveReduceScatterV2(input=parts, merge_op="Add", final_op="Id", **self._next())
        return tf.ensure_shape(tf.squeeze(part, 0), parts.shape[1:])

    def _next(self) -> dict[str, Any]:
        """The arguments that every collective takes, for the next one of this replica."""
        return {
            "group_size": self.replicas,
            "group_key": self._key,
            "instance_key": self._groups.instance(self._key, self._number),
            "ordering_token": [self._token],
            "communication_hint": self._groups.hint,
            "timeout_seconds": NO_TIMEOUT,
        }


def packs(tensors: Sequence[Any], pack_mib: float) -> list[list[int]]:
    """Places of the tensors that travel together: of one dtype, at most `pack_mib` MiB (0: no limit), the last first."""
    limit = pack_mib * MIB if pack_mib else float("inf")
    return in_reverse([payload_of([tensor]) for tensor in tensors], limit, [tensor.dtype for tensor in tensors])
