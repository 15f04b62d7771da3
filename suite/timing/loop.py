"""The block timer: dispatch a block, then fetch one scalar bundle of the one before, so the device never drains."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.timing.clock import Clock
from tfscale.suite.timing.protocol import Fetched, Runner
from tfscale.suite.timing.series import BlockSeries
from tfscale.suite.timing.stopping import Decider, LoopSettings

OnBlock = Callable[[Fetched], None]


def measure(
    runner: Runner, clock: Clock, settings: LoopSettings, *, decides: bool, on_block: OnBlock | None = None
) -> BlockSeries:
    """Time blocks of steps until the deciding rank has enough of them. Every rank of the job calls this.

    Exactly one rank has `decides`; its decisions travel as `control` with the steps (summed over ranks, the others
    give 0) and every rank, itself included, acts on them when it sees them in a fetch, which is the same fetch on all.
    So all dispatch the same sequence. `on_block` is called after every fetch, pilot and drain included, while the
    device is busy with the next block (except after the last).
    """
    sizes = _Sizes(settings)
    decider = Decider(settings) if decides else None
    log = _Log(begin_ns=clock.now_ns())
    control = 0.0
    size = sizes.take()
    pending = runner.dispatch(size, control)
    while True:
        following = sizes.take()
        upcoming = runner.dispatch(following, control) if following else None
        fetched = pending.fetch()
        log.add(size, clock.now_ns(), fetched)
        if on_block is not None:
            on_block(fetched)
        if upcoming is None:
            return log.series(sizes.first)
        # Sums of small integers, maybe in float32: compare with a margin.
        if fetched.control < -0.5:
            sizes.end()
        elif fetched.control > 0.5:
            sizes.resize(round(fetched.control))
            if decider is not None:
                decider.resized(sizes.size)
        control = decider.decide(log.seconds(sizes.first)) if decider is not None else 0.0
        pending, size = upcoming, following


def stamp_steps(runner: Runner, clock: Clock, calls: int, steps_per_call: int = 1) -> NDArray[np.float64]:
    """Seconds per step of `calls` consecutive calls, (calls,), from a stamp after each; for p95, p99 and max.

    A pass of its own, because with so little queued a fetch may hold up a fast device. Lagged by one call. Dispatches
    calls + 2: the first has no stamp before it, and the last has nothing behind it, so neither is timed.
    A call of more than one step gives the mean over its steps. Every rank calls this with the same arguments.
    """
    if calls < 1:
        raise ValueError(f"at least one call must be stamped, got {calls}")
    stamps = []
    pending = runner.dispatch(steps_per_call, 0.0)
    for _ in range(calls + 1):
        upcoming = runner.dispatch(steps_per_call, 0.0)
        pending.fetch()
        stamps.append(clock.now_ns())
        pending = upcoming
    pending.fetch()
    return np.asarray(np.diff(np.array(stamps, dtype=np.int64)) / 1e9 / steps_per_call, dtype=np.float64)


class _Sizes:
    """How many steps to dispatch next: a pure function of settings and decisions seen, so the same on all ranks."""

    def __init__(self, settings: LoopSettings) -> None:
        self.size = settings.steps_per_call
        self.first = 1
        """Group with which the timed series begins: the first of the present size, but never the compiling first."""
        self._left = settings.max_steps
        self._odd = 0
        self._groups = 0
        self._ended = False

    def take(self) -> int:
        """Steps of the next group; 0 at the end."""
        steps = 0 if self._ended else self._odd or self.size
        self._odd = 0
        if self._left is not None:
            steps = min(steps, self._left)
            self._left -= steps
        self._groups += steps > 0
        return steps

    def resize(self, size: int) -> None:
        """The next group begins a new series of blocks of `size` steps.

        A fixed number of steps that is not a multiple of it loses the remainder first, for blocks to be equal.
        """
        self.size = size
        self._odd = self._left % size if self._left is not None else 0
        self.first = self._groups + (self._odd > 0)

    def end(self) -> None:
        self._ended = True


@dataclass
class _Log:
    """One row for each fetched group: size, stamp, step, samples, skipped, and its loss."""

    begin_ns: int
    rows: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def add(self, size: int, now_ns: int, fetched: Fetched) -> None:
        self.rows.append((size, now_ns, fetched.step, fetched.samples, fetched.skipped))
        self.losses.append(fetched.loss)

    def seconds(self, first: int) -> list[float]:
        """Lengths of the groups from `first` on, in seconds."""
        stamps = [row[1] for row in self.rows[first - 1 :]]
        return [(end - start) / 1e9 for start, end in pairwise(stamps)]

    def series(self, first: int) -> BlockSeries:
        size, end_ns, step, samples, skipped = np.array(self.rows, dtype=np.int64).T
        stop = len(self.rows) - 1
        return BlockSeries(
            begin_ns=self.begin_ns,
            first=min(first, stop),
            stop=stop,
            group_size=size,
            group_end_ns=end_ns,
            group_step=step,
            group_samples=samples,
            group_loss=np.array(self.losses, dtype=np.float64),
            group_skipped=skipped,
        )
