"""An exchange without a network: what it asks the wire to move, and how long it encodes and decodes.

The wire of a recording moves nothing. It notes each collective and gives back what would come if every replica had
handed in the same, so an exchange runs through as it would in a step, its own state included. Recordings are made in a
thread of their own: there no strategy's scope is open, and variables are plain.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import tensorflow as tf

from tfscale.suite.analysis import communication
from tfscale.suite.analysis.communication import Moved
from tfscale.suite.exchange import groupwire
from tfscale.suite.exchange.base import Exchange, create
from tfscale.suite.exchange.shapes import GradientShape, assembled, made_up, specs
from tfscale.suite.exchange.stillwire import Handed, StillSession, StillWire
from tfscale.suite.exchange.wire import MIB, Wire, group_of, payload_of

T = TypeVar("T")
RIDERS = 4
"""Elements of the vector that goes with the gradients."""
_TIMED = 3


@dataclass(frozen=True)
class Job(StillSession):
    """One replica of a job whose racks may be known, and what its devices are."""

    on_gpu: bool = False

    def level(self, members: Sequence[int]) -> str:
        """What a group of those replicas is called in a cost: all, rack or across."""
        if len(members) == self.replicas:
            return "all"
        return "rack" if self.racks and len({self.racks[member] for member in members}) == 1 else "across"


class RecordingWire(StillWire):
    """Replica 0's end of a group of `job`. `moved` is shared by all wires of a recording, in the order of the calls."""

    def __init__(self, job: Job, moved: list[Moved], members: Sequence[int] | None = None) -> None:
        self._members = tuple(members or range(job.replicas))
        super().__init__(len(self._members), 0, Handed())
        self._job, self.moved = job, moved
        self._level = job.level(self._members)

    def among(self, groups: Sequence[Sequence[int]]) -> Wire:
        mine = group_of(self.replica, groups, self.replicas)
        return RecordingWire(self._job, self.moved, [self._members[number] for number in mine])

    def _note(self, kind: str, size: float) -> None:
        if self.replicas > 1:
            self.moved.append(Moved(kind, size, self.replicas, self._level))

    def _sum(self, tensors: list[Any], pack_mib: float) -> list[Any]:
        for size in self._packs([each for each in tensors if not isinstance(each, tf.IndexedSlices)], pack_mib):
            self._note("all_reduce", size)
        for rows in (each for each in tensors if isinstance(each, tf.IndexedSlices)):
            for part in (rows.values, rows.indices):
                self._note("all_gather", self.replicas * payload_of([part]))
        return super()._sum(tensors, pack_mib)

    def _packs(self, dense: list[Any], pack_mib: float) -> list[int]:
        """Bytes of each pack: sums of all replicas go by tf.distribute's rule, those of groups by our own."""
        if self._level == "all":
            return communication.packs([payload_of([tensor]) for tensor in dense], pack_mib * MIB)
        return [payload_of([dense[place] for place in pack]) for pack in groupwire.packs(dense, pack_mib)]

    def _gather(self, tensor: Any) -> Any:
        self._note("all_gather", self.replicas * payload_of([tensor]))
        return super()._gather(tensor)

    def _all_to_all(self, parts: Any) -> Any:
        self._note("all_to_all", payload_of([parts]))
        return super()._all_to_all(parts)

    def _reduce_scatter(self, parts: Any) -> Any:
        if not self._job.on_gpu:
            return super()._reduce_scatter(parts)
        self._note("reduce_scatter", payload_of([parts]))
        return parts[0]


def moved(name: str, job: Job, variables: Sequence[Any], shapes: Sequence[GradientShape]) -> list[Moved]:
    """The collectives of one step of the exchange `name`, for gradients of those shapes. Raises what the exchange does."""
    return _apart(lambda: _Recording(name, job, variables, shapes).moved)


def seconds(name: str, job: Job, shapes: Sequence[GradientShape]) -> float:
    """Seconds that the exchange `name` takes to encode and decode gradients of those shapes on this rank's cores."""

    def measured() -> float:
        given = made_up(shapes)
        recording = _Recording(name, job, given, shapes)
        recording.run(given)  # compiles, and touches memory for the first time
        return statistics.median(recording.run(given) for _ in range(_TIMED))

    return _apart(measured)


class _Recording:
    """An exchange of its own, traced once over a wire that moves nothing."""

    def __init__(self, name: str, job: Job, variables: Sequence[Any], shapes: Sequence[GradientShape]) -> None:
        self._exchange: Exchange = create(name)
        self._exchange.build(job, variables)  # type: ignore[arg-type]  # it is as much of a session as is asked for
        self._job, self._shapes = job, shapes
        self.moved: list[Moved] = []
        self._traced = tf.function(self._step, autograph=False).get_concrete_function(*specs(shapes))

    def _step(self, *given: Any) -> Any:
        self.moved.clear()  # a function that makes variables is traced twice
        gradients = assembled(self._shapes, given)
        means, riders = self._exchange.reduce(RecordingWire(self._job, self.moved), gradients, tf.zeros([RIDERS]))
        return [*means, riders]

    def run(self, given: Sequence[Any]) -> float:
        began = time.perf_counter()
        self._traced(*given)[-1].numpy()
        return time.perf_counter() - began


def _apart(work: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()
