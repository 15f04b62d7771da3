"""Batches for the replicas of one process: a pool on the device, or a tf.data pipeline.

Replica r of n takes rows [r * B, (r + 1) * B) of each global batch, B = micro-batch x accumulation, so that a step
trains on the same samples however many replicas share them.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tfscale.suite import pagecache
from tfscale.suite.spec import Case
from tfscale.suite.workload import Batch, Workload

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Feed(ABC):
    """`place` once, outside any function; then `batch` inside the traced step, in cross-replica context."""

    def go_on_after(self, step: int) -> None:
        """Before `place`: begin with the batch of the step after completed step number `step`.

        Nothing is to be done where the number of a step tells its batch.
        """

    @abstractmethod
    def place(self, devices: Sequence[str]) -> None:
        """Make ready for one local replica a device."""

    @abstractmethod
    def batch(self, local: int, step: Any) -> Batch:
        """The batch of local replica `local` for step number `step` (int64 scalar), on its device."""

    @abstractmethod
    def dataset(self, replica: int) -> Any:
        """An endless tf.data.Dataset of the batches of replica number `replica` of the job."""

    def effective(self) -> dict[str, Any]:
        """What is true of the input and not only asked for; a None has `<name>_reason` beside it."""
        return {}


class SyntheticFeed(Feed):
    """A pool of batches kept on the device; step k takes number k modulo the pool."""

    def __init__(self, workload: Workload, case: Case, first_replica: int) -> None:
        self._workload = workload
        self._case = case
        self._first = first_replica
        self._size = workload.synthetic_pool(case.preset)
        self._pools: list[Batch] = []

    def place(self, devices: Sequence[str]) -> None:
        for local, device in enumerate(devices):
            rows = self._rows(self._first + local)
            with tf.device(device):
                self._pools.append({name: tf.identity(tf.constant(value)) for name, value in rows.items()})

    def batch(self, local: int, step: Any) -> Batch:
        pool = self._pools[local]
        if self._size == 1:
            return {name: value[0] for name, value in pool.items()}
        index = tf.math.floormod(step, self._size)
        return {name: tf.gather(value, index) for name, value in pool.items()}

    def dataset(self, replica: int) -> Any:
        return tf.data.Dataset.from_tensor_slices(self._rows(replica)).cache().repeat()

    def _rows(self, replica: int) -> "dict[str, NDArray[Any]]":
        """This replica's rows of every batch of the pool: feature name -> [pool, B, ...]."""
        case = self._case
        size = case.micro_batch * case.micro_batches
        taken = slice(replica * size, (replica + 1) * size)
        batches = [
            self._workload.synthetic(
                case.preset, seed=case.seed, index=k, batch=case.step_batch, options={"index": case.input.index}
            )
            for k in range(self._size)
        ]
        return {name: np.stack([batch[name][taken] for batch in batches]) for name in batches[0]}


class FilesFeed(Feed):
    """A pipeline for each local replica over its shard of the files."""

    def __init__(self, workload: Workload, case: Case, first_replica: int, directory: str) -> None:
        if workload.data_module is None:
            raise ValueError(f"workload {workload.name} has no input from files")
        self._module = importlib.import_module(workload.data_module)
        self._shape = workload.shape(case.preset)
        self._case = case
        self._first = first_replica
        self._directory = directory
        self._iterators: list[Any] = []
        self._taken = 0
        self._cache = pagecache.prepare_folder(Path(directory), case.input.page_cache)

    def effective(self) -> dict[str, Any]:
        cache = self._cache
        return {"page_cache": cache.found, **({"page_cache_reason": cache.reason} if cache.reason else {})}

    def go_on_after(self, step: int) -> None:
        self._taken = step

    def place(self, devices: Sequence[str]) -> None:
        for local, device in enumerate(devices):
            dataset = self.dataset(self._first + local)
            if (
                self._taken
            ):  # the order is a function of the seed, so a number says which were taken; they are read again
                dataset = dataset.skip(self._taken)
            if "GPU" in device.upper():
                dataset = dataset.apply(tf.data.experimental.copy_to_device(device)).prefetch(1)
                with tf.device(device):
                    self._iterators.append(iter(dataset))
            else:
                self._iterators.append(iter(dataset))

    def batch(self, local: int, step: Any) -> Batch:
        batch: Batch = next(self._iterators[local])
        return batch

    def dataset(self, replica: int) -> Any:
        case = self._case
        return self._module.dataset(
            self._shape,
            self._directory,
            input=case.input,
            seed=case.seed,
            shards=case.devices,
            index=replica,
            batch=case.micro_batch * case.micro_batches,
        )


def create(workload: Workload, case: Case, first_replica: int, directory: str | None) -> Feed:
    """The feed that `case.input` names; `directory` holds the files for input from files."""
    if case.input.kind == "synthetic":
        return SyntheticFeed(workload, case, first_replica)
    path = case.input.path or directory
    if path is None:
        raise ValueError("input from files needs a folder of TFRecord files")
    return FilesFeed(workload, case, first_replica, path)
