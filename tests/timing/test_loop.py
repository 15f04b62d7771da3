"""The block timer on a double of an asynchronous device with a virtual clock: seconds of training in microseconds."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from tfscale.suite.timing.job import merge
from tfscale.suite.timing.loop import measure, stamp_steps
from tfscale.suite.timing.protocol import Fetched
from tfscale.suite.timing.series import BlockSeries
from tfscale.suite.timing.stopping import LoopSettings

StepNs = Callable[[int, int], int]
"""(first step, steps) -> nanoseconds on the device."""


def every(step_s: float) -> StepNs:
    return lambda first, steps: round(steps * step_s * 1e9)


@dataclass
class Job:
    """Ranks in lockstep: group g runs on all once all dispatched it and g - 1 is done, and sums their controls."""

    ranks: int = 1
    batch: int = 8
    posts: list[dict[int, tuple[int, int, float, int]]] = field(default_factory=list)
    done_ns: list[int] = field(default_factory=list)
    idle_ns: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def post(self, group: int, rank: int, now_ns: int, busy_ns: int, control: float, steps: int) -> None:
        with self.changed:
            if len(self.posts) <= group:
                self.posts.append({})
            self.posts[group][rank] = (now_ns, busy_ns, control, steps)
            while len(self.done_ns) < len(self.posts) and len(self.posts[len(self.done_ns)]) == self.ranks:
                self._run(len(self.done_ns))
            self.changed.notify_all()

    def _run(self, group: int) -> None:
        posted = self.posts[group].values()
        dispatched, before = max(p[0] for p in posted), self.done_ns[-1] if group else 0
        if group:
            self.idle_ns += max(dispatched - before, 0)
        self.done_ns.append(max(dispatched, before) + max(p[1] for p in posted))

    def fetched(self, group: int) -> Fetched:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.done_ns) > group, timeout=20), "ranks out of lockstep"
            assert len({p[3] for p in self.posts[group].values()}) == 1, "ranks dispatched different sizes"
            step = sum(next(iter(posted.values()))[3] for posted in self.posts[: group + 1])
            control = sum(p[2] for p in self.posts[group].values())
        return Fetched(step=step, samples=step * self.batch * self.ranks, loss=1 / step, skipped=0, control=control)


@dataclass
class Rank:
    """Runner and clock of one rank. `blocking`: dispatch returns when the device is done, as TensorFlow on a CPU."""

    job: Job
    step_ns: StepNs
    number: int = 0
    offset_ns: int = 0
    compile_ns: int = 0
    call_ns: int = 0
    fetch_ns: int = 0
    blocking: bool = False
    virtual_ns: int = 0
    sizes: list[int] = field(default_factory=list)

    def now_ns(self) -> int:
        return self.virtual_ns + self.offset_ns

    def dispatch(self, steps: int, control: float) -> "Group":
        group = len(self.sizes)
        self.virtual_ns += self.call_ns + (self.compile_ns if group == 0 else 0)
        busy_ns = self.step_ns(sum(self.sizes), steps)
        self.sizes.append(steps)
        self.job.post(group, self.number, self.virtual_ns, busy_ns, control, steps)
        if self.blocking:
            self.job.fetched(group)
            self.virtual_ns = max(self.virtual_ns, self.job.done_ns[group])
        return Group(self, group)


@dataclass
class Group:
    rank: Rank
    number: int

    def fetch(self) -> Fetched:
        fetched = self.rank.job.fetched(self.number)
        self.rank.virtual_ns = max(self.rank.virtual_ns, self.rank.job.done_ns[self.number]) + self.rank.fetch_ns
        return fetched


def run(rank: Rank, **settings: float) -> BlockSeries:
    return measure(rank, rank, LoopSettings(**settings), decides=True)  # type: ignore[arg-type]


def run_ranks(ranks: list[Rank], settings: LoopSettings) -> list[BlockSeries]:
    series: dict[int, BlockSeries] = {}

    def work(rank: Rank) -> None:
        series[rank.number] = measure(rank, rank, settings, decides=rank.number == 0)

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(series) == len(ranks)
    return [series[number] for number in range(len(ranks))]


def test_blocks_tile_the_time_of_the_device_exactly() -> None:
    rank = Rank(Job(), every(0.01), call_ns=50_000, fetch_ns=20_000)
    series = run(rank, min_s=0)
    done = np.array(rank.job.done_ns)
    assert series.elapsed_s == pytest.approx((done[series.stop - 1] - done[series.first - 1]) / 1e9, abs=1e-12)
    assert series.seconds.sum() == pytest.approx(series.elapsed_s, abs=1e-12)
    assert np.array_equal(series.start_ns[1:], series.end_ns[:-1])
    np.testing.assert_allclose(series.step_seconds, 0.01)


def test_the_device_never_idles_for_a_fetch() -> None:
    """Against the loop that fetches the block it has just dispatched: idle for every fetch and dispatch."""
    rank = Rank(Job(), every(0.01), call_ns=1_000_000, fetch_ns=2_000_000)
    series = run(rank, min_s=0)
    assert rank.job.idle_ns == 0
    assert series.step_seconds.mean() == pytest.approx(0.01)

    naive = Rank(Job(), every(0.01), call_ns=1_000_000, fetch_ns=2_000_000)
    for _ in range(30):
        naive.dispatch(20, 0.0).fetch()
    assert naive.job.idle_ns == 29 * 3_000_000
    assert naive.now_ns() / 1e9 / 600 > 0.01014


def test_the_truth_of_each_block_is_recovered() -> None:
    """Step s takes 10 ms plus s microseconds: a block's time names its steps."""
    rank = Rank(Job(), lambda first, steps: sum(10_000_000 + 1_000 * s for s in range(first, first + steps)))
    series = run(rank, min_s=0, target=1.0)
    begin, size = series.pilot_steps, series.block_steps
    truth = [0.01 + 1e-6 * (begin + b * size + (size - 1) / 2) for b in range(len(series))]
    np.testing.assert_allclose(series.step_seconds, truth)


@pytest.mark.parametrize("step_s", [1e-5, 1e-3, 0.05, 0.19, 0.5])
def test_blocks_last_a_fifth_of_a_second_whatever_the_step(step_s: float) -> None:
    rank = Rank(Job(), every(step_s), compile_ns=30_000_000_000, fetch_ns=1000)
    series = run(rank)
    assert series.seconds.min() >= 0.2
    assert series.seconds.max() <= max(2 * step_s, 0.45)
    assert len(series) >= 30
    assert rank.job.done_ns[series.first - 1] / 1e9 - 30 < 4  # the pilot
    assert set(series.steps.tolist()) == {series.block_steps}


def test_a_step_of_minutes_wastes_only_the_first() -> None:
    series = run(Rank(Job(), every(100.0), compile_ns=10**11), budget_s=60)
    assert (series.block_steps, series.pilot_steps) == (1, 1)
    assert len(series) == 3
    assert len(series.group_size) == 5


def test_slow_first_steps_do_not_fix_a_small_block() -> None:
    """Two traces and an autotuning: the first six steps take 5 s, the others 1 ms."""
    rank = Rank(Job(), lambda first, steps: sum(5 * 10**9 if s < 6 else 10**6 for s in range(first, first + steps)))
    assert run(rank).seconds.min() >= 0.2


def test_the_budget_ends_the_series() -> None:
    rng = np.random.default_rng(0)
    series = run(Rank(Job(), lambda first, steps: round(steps * 1e7 * rng.uniform(0.2, 5))), budget_s=20, target=1e-6)
    assert 18 < series.elapsed_s < 22


def test_calls_of_several_steps_stay_whole() -> None:
    rank = Rank(Job(), every(0.0031))
    series = run(rank, steps_per_call=10)
    assert all(size % 10 == 0 for size in rank.sizes)
    assert series.block_steps == 70  # 1.05 x 0.2 s / 3.1 ms, up to a multiple of 10


@pytest.mark.parametrize(("steps", "step_s"), [(1, 0.01), (2, 0.01), (20, 0.001), (997, 0.01), (5000, 1e-4)])
def test_a_fixed_number_of_steps_is_exact_and_its_blocks_are_equal(steps: int, step_s: float) -> None:
    rank = Rank(Job(), every(step_s))
    series = run(rank, max_steps=steps, budget_s=0.1)
    assert sum(rank.sizes) == steps
    assert len(set(series.steps.tolist())) <= 1
    assert series.group_step[-1] == steps


@pytest.mark.parametrize("settings", [{}, {"max_steps": 1003}])
def test_a_device_that_runs_inside_dispatch_is_timed_right(settings: dict[str, int]) -> None:
    """Stamps then come a block late; the last, which comes at once, is not a block."""
    series = run(Rank(Job(), every(0.01), blocking=True, fetch_ns=1000), **settings)
    np.testing.assert_allclose(series.step_seconds, 0.01, rtol=1e-4)


def test_samples_and_steps_are_those_fetched() -> None:
    series = run(Rank(Job(batch=8), every(0.01)))
    assert np.array_equal(series.samples, 8 * series.steps)
    assert series.loss[-1] == 1 / series.group_step[series.stop - 1]
    assert series.skipped.sum() == 0


def test_every_fetch_is_a_heartbeat() -> None:
    beats: list[int] = []
    rank = Rank(Job(), every(0.01))
    measure(rank, rank, LoopSettings(), decides=True, on_block=lambda fetched: beats.append(fetched.step))
    assert beats == np.cumsum(rank.sizes).tolist()


@pytest.mark.parametrize("count", [2, 3])
def test_ranks_stay_in_lockstep_and_agree(count: int) -> None:
    job = Job(ranks=count)
    ranks = [Rank(job, every(0.004 + 0.001 * number), number, offset_ns=10**12 * number) for number in range(count)]
    series = run_ranks(ranks, LoopSettings(min_s=2))
    assert all(rank.sizes == ranks[0].sizes for rank in ranks)
    assert len({(one.first, one.stop, one.block_steps) for one in series}) == 1
    assert len(series[0]) >= 30
    merged = merge(series, [10**12 * number for number in range(count)])
    assert merged.step_time == pytest.approx(0.004 + 0.001 * (count - 1))
    assert job.idle_ns == 0


def test_ranks_with_a_fixed_number_of_steps_end_together() -> None:
    job = Job(ranks=3)
    ranks = [Rank(job, every(0.002), number) for number in range(3)]
    run_ranks(ranks, LoopSettings(max_steps=1234))
    assert [sum(rank.sizes) for rank in ranks] == [1234] * 3


def test_stamped_steps_are_the_steps() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(5_000_000, 9_000_000, size=102)
    rank = Rank(Job(), lambda first, steps: int(truth[first : first + steps].sum()), fetch_ns=1000)
    np.testing.assert_allclose(stamp_steps(rank, rank, 100), truth[1:101] / 1e9)
    assert rank.job.idle_ns == 0


def test_stamped_calls_are_means_over_their_steps() -> None:
    rank = Rank(Job(), every(0.01))
    np.testing.assert_allclose(stamp_steps(rank, rank, 5, steps_per_call=10), [0.01] * 5)
    assert rank.sizes == [10] * 7
    with pytest.raises(ValueError, match="at least one"):
        stamp_steps(rank, rank, 0)
