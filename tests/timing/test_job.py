import numpy as np
import pytest

from tfscale.suite.timing.job import merge, merge_independent
from tfscale.suite.timing.series import BlockSeries


def series(stamps_ns: np.ndarray, steps: int = 1, samples: int = 8) -> BlockSeries:
    """Blocks that end at `stamps_ns[1:]`, the first starting at `stamps_ns[0]`; `steps` and `samples` a block."""
    stamps = np.append(stamps_ns, stamps_ns[-1]).astype(np.int64)
    counts = np.arange(1, stamps.size + 1)
    return BlockSeries(
        begin_ns=0,
        first=1,
        stop=stamps.size - 1,
        group_size=np.full(stamps.size, steps),
        group_end_ns=stamps,
        group_step=counts * steps,
        group_samples=counts * samples,
        group_loss=np.ones(stamps.size),
        group_skipped=np.zeros(stamps.size, dtype=np.int64),
    )


def test_a_block_ends_when_the_last_rank_ends_it() -> None:
    job = merge([series(np.array([0, 10, 20, 30])), series(np.array([1, 9, 24, 29]))], [0, 0])
    assert (job.boundaries_s * 1e9).round().tolist() == [0, 9, 23, 29]
    assert job.seconds.sum() == pytest.approx(job.elapsed_s)
    assert job.common_clock


def test_offsets_bring_clocks_together() -> None:
    ahead = 987_654_321_987
    job = merge([series(np.array([0, 10, 20])), series(np.array([5, 12, 30]) + ahead)], [0, ahead])
    assert (job.boundaries_s * 1e9).round().tolist() == [0, 7, 25]


def test_a_perfect_job_of_512_ranks_is_perfect() -> None:
    """Blocks of 1 s with 1 % jitter: E(b) - E(b-1) says 100 %, the mean of the maximum over ranks 97 %."""
    rng, blocks = np.random.default_rng(0), 400
    truth = np.arange(blocks + 1) * 1e9 + 1e9
    stamps = truth + rng.normal(0, 1e7 / np.sqrt(2), size=(512, blocks + 1))
    ranks = [series(stamps[rank]) for rank in range(512)]
    assert 1 / merge(ranks, [0] * 512).step_time == pytest.approx(1, abs=1e-3)
    assert 1 / merge(ranks, None).step_time == pytest.approx(1, abs=1e-3)
    wrong = np.max([rank.seconds for rank in ranks], axis=0).mean()
    assert 1 / wrong == pytest.approx(0.97, abs=0.005)


def test_without_a_common_clock_the_longest_window_counts() -> None:
    job = merge([series(np.array([0, 10, 20, 30])), series(np.array([500, 513, 523, 535]))], None)
    assert (job.boundaries_s * 1e9).round().tolist() == [0, 13, 23, 35]
    assert not job.common_clock


def test_throughput_times_step_time_is_the_batch_counted() -> None:
    job = merge([series(np.arange(11) * 10**8, steps=5, samples=160)], [0])
    assert job.global_batch == 32
    assert job.step_time == pytest.approx(0.02)
    assert job.throughput * job.step_time == pytest.approx(32)
    np.testing.assert_allclose(job.step_seconds, 0.02)


def test_a_window_is_a_part_of_the_blocks() -> None:
    stamps = np.array([0, 50, 60, 70, 80])
    whole, window = merge([series(stamps)], [0]), merge([series(stamps)], [0], (1, 4))
    assert (whole.elapsed_s, window.elapsed_s) == (pytest.approx(80e-9), pytest.approx(30e-9))
    assert window.seconds.size == 3


def test_ranks_that_do_not_belong_together_are_refused() -> None:
    good = series(np.arange(5))
    with pytest.raises(ValueError, match="rank 1 disagrees with rank 0 about the steps"):
        merge([good, series(np.arange(4))], None)
    with pytest.raises(ValueError, match="about the samples"):
        merge([good, series(np.arange(5), samples=9)], None)
    with pytest.raises(ValueError, match="no timed blocks"):
        merge([], None)
    with pytest.raises(ValueError, match="1 clock offsets for 2"):
        merge([good, good], [0])
    with pytest.raises(ValueError, match="not within"):
        merge([good], [0], (2, 6))


def test_independent_replicas_add_up_in_their_common_window() -> None:
    """One rank does 8 samples in 0.1 s, the other in 0.2 s; once the first ends, the second runs twice as fast."""
    fast = series(np.arange(0, 41) * 10**8)
    slow = series(np.append(np.arange(0, 21) * 2 * 10**8, 4 * 10**9 + np.arange(1, 21) * 10**8))
    rate = merge_independent([fast, slow], [0, 0])
    assert rate.throughput == pytest.approx(80 + 40)
    assert rate.global_batch == 16
    assert rate.throughput * rate.step_time == pytest.approx(16)
    assert rate.window_s == pytest.approx(4)


def test_independent_replicas_use_their_steady_windows_and_offsets() -> None:
    ahead = 7 * 10**12
    stamps = np.append([0], 10**9 + np.arange(0, 20) * 10**8)
    other = np.arange(0, 30) * 10**8 + ahead
    rate = merge_independent([series(stamps), series(other)], [0, ahead], [(1, 20), (0, 29)])
    assert rate.throughput == pytest.approx(160)
    assert rate.window_s == pytest.approx(1.9)


def test_independent_replicas_without_a_common_clock_say_so() -> None:
    rate = merge_independent([series(np.arange(5) * 10**9), series(np.arange(5) * 10**9)], None)
    assert (rate.throughput, rate.window_s) == (pytest.approx(16), None)


def test_independent_replicas_that_never_ran_together_are_refused() -> None:
    with pytest.raises(ValueError, match="common to all"):
        merge_independent([series(np.arange(5)), series(np.arange(5) + 100)], [0, 0])
    with pytest.raises(ValueError, match="no timed blocks"):
        merge_independent([], None)
