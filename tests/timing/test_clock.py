import numpy as np
import pytest

from tfscale.suite.timing.clock import MonotonicClock, ping_pong_offset


def test_the_clock_is_monotonic_and_counts_nanoseconds() -> None:
    clock = MonotonicClock()
    stamps = [clock.now_ns() for _ in range(100)]
    assert stamps == sorted(stamps)
    assert all(isinstance(stamp, int) for stamp in stamps)


def test_the_shortest_round_trip_decides_and_half_of_it_is_the_bound() -> None:
    offset = ping_pong_offset([(0, 5_900, 2_000), (10_000, 15_100, 10_200), (20_000, 26_000, 23_000)])
    assert offset.offset_ns == 15_100 - 10_100
    assert offset.bound_ns == 100
    assert offset.to_local(15_100) == 10_100


@pytest.mark.parametrize("asymmetry", [0.0, 0.3, 1.0])
def test_the_truth_is_within_the_bound_however_asymmetric_the_path(asymmetry: float) -> None:
    rng, true_offset, now, samples = np.random.default_rng(1), -7_654_321, 0, []
    for round_trip in rng.integers(20_000, 200_000, size=50).tolist():
        samples.append((now, now + int(round_trip * asymmetry) + true_offset, now + round_trip))
        now += 1_000_000
    estimate = ping_pong_offset(samples)
    assert abs(estimate.offset_ns - true_offset) <= estimate.bound_ns + 1
    assert estimate.bound_ns == min(r - s for s, _, r in samples) / 2


@pytest.mark.parametrize(("samples", "message"), [([], "no ping-pong"), ([(5, 6, 4)], "received before")])
def test_useless_samples_are_refused(samples: list[tuple[int, int, int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ping_pong_offset(samples)
