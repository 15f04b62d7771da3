"""What the block timer brings home: every group of steps that a rank dispatched, and which of them are timed blocks."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BlockSeries:
    """Groups of steps in the order of dispatch, arrays (g,); the timed blocks are groups [first, stop).

    Groups before `first` are the pilot. The last group is never a block: with nothing dispatched behind it, its end
    is stamped at another point of the pipeline than all others (on a device that runs inside `dispatch`, at once).
    A block starts at the stamp that ended the group before it, so blocks tile the elapsed time exactly.
    """

    begin_ns: int
    """Clock before the first dispatch."""
    first: int
    stop: int
    group_size: Counts
    """Steps dispatched."""
    group_end_ns: Counts
    """Clock when the group's fetch returned."""
    group_step: Counts
    """Completed steps of the whole job, cumulative, as fetched."""
    group_samples: Counts
    """Samples consumed by the whole job, cumulative, as counted in the ranks."""
    group_loss: Floats
    """Loss of the group's last step."""
    group_skipped: Counts
    """Skipped steps, cumulative."""

    def __len__(self) -> int:
        """Number of timed blocks."""
        return max(self.stop - self.first, 0)

    @property
    def start_ns(self) -> Counts:
        """Clock at the start of each block, (b,)."""
        return self._boundaries(self.group_end_ns)[:-1]

    @property
    def end_ns(self) -> Counts:
        """Clock at the end of each block, (b,)."""
        return self.group_end_ns[self.first : self.stop]

    @property
    def seconds(self) -> Floats:
        """Length of each block, (b,)."""
        return np.asarray(np.diff(self._boundaries(self.group_end_ns)) / 1e9, dtype=np.float64)

    @property
    def steps(self) -> Counts:
        """Steps completed in each block, (b,), as fetched."""
        return np.diff(self._boundaries(self.group_step))

    @property
    def samples(self) -> Counts:
        """Samples consumed by the job in each block, (b,), as fetched."""
        return np.diff(self._boundaries(self.group_samples))

    @property
    def skipped(self) -> Counts:
        """Steps whose update was skipped in each block, (b,)."""
        return np.diff(self._boundaries(self.group_skipped))

    @property
    def loss(self) -> Floats:
        """Loss of the last step of each block, (b,)."""
        return self.group_loss[self.first : self.stop]

    @property
    def step_seconds(self) -> Floats:
        """Seconds per step of each block, (b,)."""
        return np.asarray(self.seconds / self.steps, dtype=np.float64)

    @property
    def elapsed_s(self) -> float:
        """Seconds from the start of the first block to the end of the last; the blocks' sum."""
        return float(self.end_ns[-1] - self.start_ns[0]) / 1e9 if len(self) else 0.0

    @property
    def block_steps(self) -> int:
        """K, the steps dispatched per block; 0 without blocks."""
        return int(self.group_size[self.first]) if len(self) else 0

    @property
    def pilot_steps(self) -> int:
        """Steps dispatched before the first block."""
        return int(self.group_size[: self.first].sum())

    @property
    def pilot_s(self) -> float:
        """Seconds from the first dispatch (compilation included) to the start of the first block."""
        return float(self.group_end_ns[self.first - 1] - self.begin_ns) / 1e9 if self.first else 0.0

    def _boundaries(self, cumulative: Counts) -> Counts:
        """`cumulative` (g,) before the first block and after each, (b + 1,); (1,) without blocks."""
        start = max(self.first - 1, 0)
        return cumulative[start : max(self.stop, start + 1)] if len(self) else cumulative[start : start + 1]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Every field as an array, for `numpy.savez`."""
        return {item.name: np.asarray(getattr(self, item.name)) for item in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "BlockSeries":
        """The series that `arrays` (a loaded npz, maybe with more in it) was made of. KeyError for a missing field."""
        loaded: dict[str, Any] = {item.name: arrays[item.name] for item in fields(cls)}
        for name in ("begin_ns", "first", "stop"):
            loaded[name] = int(loaded[name])
        return cls(**loaded)


_RANK = re.compile(r"rank(\d+)[/._](.+)")


def series_of_ranks(arrays: Mapping[str, NDArray[Any]]) -> list[BlockSeries]:
    """The series of each rank in a trial's blocks.npz: its fields under `rank<r>/`, or bare where there is one rank.

    KeyError for a rank with a missing field.
    """
    found: dict[int, dict[str, NDArray[Any]]] = {}
    for key, values in arrays.items():
        match = _RANK.match(key)
        number, name = (int(match[1]), match[2]) if match else (0, key)
        found.setdefault(number, {})[name] = values
    return [BlockSeries.from_arrays(found[number]) for number in sorted(found) if "group_end_ns" in found[number]]
