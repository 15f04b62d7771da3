"""From the series of the ranks to the blocks of the job."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.timing.series import BlockSeries

Floats = NDArray[np.float64]
Window = tuple[int, int]
"""Blocks [start, stop)."""


@dataclass(frozen=True, eq=False)
class JobSeries:
    """Blocks of a synchronous job. `boundaries_s` (b + 1,): 0, the start of the first block, then the end of each."""

    boundaries_s: Floats
    steps: NDArray[np.int64]
    samples: NDArray[np.int64]
    common_clock: bool
    """Whether a block ends with the last rank; else the series is that of the rank whose window took longest."""

    @property
    def seconds(self) -> Floats:
        """Length of each block, (b,)."""
        return np.asarray(np.diff(self.boundaries_s), dtype=np.float64)

    @property
    def step_seconds(self) -> Floats:
        """Seconds per step of each block, (b,)."""
        return np.asarray(self.seconds / self.steps, dtype=np.float64)

    @property
    def elapsed_s(self) -> float:
        return float(self.boundaries_s[-1] - self.boundaries_s[0])

    @property
    def step_time(self) -> float:
        """Mean step time in seconds: elapsed / steps."""
        return self.elapsed_s / int(self.steps.sum())

    @property
    def throughput(self) -> float:
        """Samples per second: samples counted / elapsed."""
        return int(self.samples.sum()) / self.elapsed_s

    @property
    def global_batch(self) -> float:
        """Samples counted per step."""
        return int(self.samples.sum()) / int(self.steps.sum())


def merge(ranks: Sequence[BlockSeries], offsets_ns: Sequence[float] | None, window: Window | None = None) -> JobSeries:
    """Job blocks of ranks in lockstep, of all blocks or of `window`.

    With a common clock (`offsets_ns`: how far each rank's clock is ahead of one of them; zeros on one host) a block
    ends when the last rank ends it, E(b) = max over ranks of the end stamps, and lasts E(b) - E(b - 1). Without
    (None), each rank's elapsed window is taken and the longest stands for the job. The mean over blocks of the
    maximum over ranks is neither: it counts every rank's jitter as the job's, 3 % at 512 ranks and 1 % jitter.

    Raises ValueError for ranks that differ in blocks, steps or samples, or for no blocks.
    """
    start, stop = _lockstep(ranks, window)
    if offsets_ns is not None and len(offsets_ns) != len(ranks):
        raise ValueError(f"{len(offsets_ns)} clock offsets for {len(ranks)} ranks")
    offsets = offsets_ns if offsets_ns is not None else [0.0] * len(ranks)
    stamps = np.stack(
        [
            _local(np.append(rank.start_ns[start], rank.end_ns[start:stop]), offset)
            for rank, offset in zip(ranks, offsets, strict=True)
        ]
    )
    longest = stamps[int(np.argmax(stamps[:, -1] - stamps[:, 0]))]
    boundaries = longest if offsets_ns is None else stamps.max(axis=0)
    return JobSeries(
        boundaries_s=np.asarray((boundaries - boundaries[0]) / 1e9, dtype=np.float64),
        steps=ranks[0].steps[start:stop],
        samples=ranks[0].samples[start:stop],
        common_clock=offsets_ns is not None,
    )


def _local(stamps_ns: NDArray[np.int64], offset_ns: float) -> NDArray[np.int64]:
    """Stamps of a clock that is `offset_ns` ahead, on the common one. Integers: a long uptime does not fit a float."""
    return stamps_ns - round(offset_ns)


def _lockstep(ranks: Sequence[BlockSeries], window: Window | None) -> Window:
    """The window, after checking that all ranks have the same blocks."""
    if not ranks or not len(ranks[0]):
        raise ValueError("no timed blocks to merge")
    for number, rank in enumerate(ranks):
        for name in ("steps", "samples"):
            if not np.array_equal(getattr(rank, name), getattr(ranks[0], name)):
                raise ValueError(f"rank {number} disagrees with rank 0 about the {name} of the blocks")
    start, stop = window or (0, len(ranks[0]))
    if not 0 <= start < stop <= len(ranks[0]):
        raise ValueError(f"window [{start}, {stop}) is not within the {len(ranks[0])} blocks")
    return start, stop


@dataclass(frozen=True)
class IndependentRate:
    """Replicas that run at once without exchange. `step_time` is such that throughput x step time == global batch."""

    throughput: float
    """Samples per second, summed over ranks."""
    global_batch: float
    """Samples per step, summed over ranks."""
    window_s: float | None
    """Length of the time common to all ranks; None without a common clock."""

    @property
    def step_time(self) -> float:
        return self.global_batch / self.throughput


def merge_independent(
    ranks: Sequence[BlockSeries], offsets_ns: Sequence[float] | None, windows: Sequence[Window] | None = None
) -> IndependentRate:
    """Rate of ranks that do not wait for one another: sum over ranks of samples / elapsed in the window common to all.

    A rank that ends early leaves the machine to the others, who speed up, so only blocks that lie wholly within the
    time when all were running (within their steady `windows`, where given) count. Without a common clock (None) each
    rank's own window is taken, and the result says so by `window_s` None.

    Raises ValueError where a rank has no block in the common window.
    """
    taken = list(windows) if windows is not None else [(0, len(rank)) for rank in ranks]
    if not ranks or any(start >= stop for start, stop in taken):
        raise ValueError("no timed blocks to merge")
    if offsets_ns is None:
        return _summed(ranks, [slice(*window) for window in taken], None)
    starts = [_local(rank.start_ns, offset) for rank, offset in zip(ranks, offsets_ns, strict=True)]
    ends = [_local(rank.end_ns, offset) for rank, offset in zip(ranks, offsets_ns, strict=True)]
    begin = max(int(stamps[start]) for stamps, (start, _) in zip(starts, taken, strict=True))
    end = min(int(stamps[stop - 1]) for stamps, (_, stop) in zip(ends, taken, strict=True))
    inside = [
        slice(int(np.searchsorted(first, begin)), int(np.searchsorted(last, end, side="right")))
        for first, last in zip(starts, ends, strict=True)
    ]
    if any(part.start >= part.stop for part in inside):
        raise ValueError("the independent replicas have no block in a window common to all of them")
    return _summed(ranks, inside, (end - begin) / 1e9)


def _summed(ranks: Sequence[BlockSeries], parts: Sequence[slice], window_s: float | None) -> IndependentRate:
    chosen = [(r.samples[p].sum(), r.seconds[p].sum(), r.steps[p].sum()) for r, p in zip(ranks, parts, strict=True)]
    return IndependentRate(
        throughput=sum(float(samples / seconds) for samples, seconds, _ in chosen),
        global_batch=sum(float(samples / steps) for samples, _, steps in chosen),
        window_s=window_s,
    )
