import numpy as np
import pytest

from tfscale.suite.record import Steady
from tfscale.suite.timing.steady import classify, classify_job, steady_problem


@pytest.mark.parametrize(("n", "rho"), [(30, 0.7), (60, 0.7), (120, 0.7), (300, 0.7), (60, 0.0), (60, 0.4)])
def test_flat_autocorrelated_series_are_flat(ar1, n: int, rho: float) -> None:
    """At most 5 % of flat AR(1) series with 3 % noise may be called anything else."""
    found = [classify(values).classification for values in ar1(rho, n, 400, seed=31)]
    assert np.mean([name != "flat" for name in found]) <= 0.05


@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_each_class_is_found(ar1, rho: float) -> None:
    n, series = 120, 100
    shapes = {
        "warm-up": np.where(np.arange(n) < 24, 1.4, 1.0),
        "slowdown": np.where(np.arange(n) < 30, 1.0, 1.4),
        "none": np.where(np.arange(n) < 96, 1.0, 1.4),
    }
    for name, shape in shapes.items():
        steadies = [classify(values) for values in ar1(rho, n, series, seed=32) * shape]
        assert np.mean([steady.classification == name for steady in steadies]) >= 0.95, name
        if name != "none":
            edge = int(np.argmax(shape != shape[0]))
            assert np.mean([abs(steady.start - edge) <= 2 for steady in steadies]) >= 0.85, name


def test_levels_are_means_and_tile_the_series() -> None:
    values = np.array([3.0] * 10 + [1.0] * 40)
    steady = classify(values)
    assert [(level.start, level.stop, level.mean) for level in steady.levels] == [(0, 10, 3.0), (10, 50, 1.0)]
    assert (steady.classification, steady.start, steady.stop) == ("warm-up", 10, 50)
    assert steady_problem(steady) is None


@pytest.mark.parametrize("count", [1, 2, 4])
def test_first_blocks_that_are_slow_are_warm_up_however_few(ar1, count: int) -> None:
    values = ar1(0.3, 60, 50, cv=0.01, seed=33)
    values[:, :count] *= 1.5
    steadies = [classify(series) for series in values]
    # Four are nearly a level, which has five blocks at least and may then take one more.
    assert all(steady.classification == "warm-up" and count <= steady.start <= 5 for steady in steadies)


def test_single_outliers_make_no_level(ar1) -> None:
    values = ar1(0.0, 60, 100, cv=0.01, seed=34)
    values[:, [20, 41]] *= 3
    assert np.mean([classify(series).classification == "flat" for series in values]) >= 0.98


def test_a_bump_in_the_middle_leaves_the_rest_after_it(ar1) -> None:
    values = ar1(0.0, 120, 50, cv=0.01, seed=35)
    values[:, 20:32] *= 1.3
    assert all((s.classification, s.start) == ("warm-up", 32) for s in map(classify, values))


def test_a_drift_of_one_percent_is_flat(ar1) -> None:
    values = ar1(0.3, 200, 50, cv=0.01, seed=36) * np.linspace(1, 1.01, 200)
    assert all(classify(series).classification == "flat" for series in values)


@pytest.mark.parametrize("end", [1.1, 1.5, 3.0, 0.5])
def test_a_ramp_is_a_problem_however_steep(ar1, end: float) -> None:
    values = ar1(0.3, 200, 50, cv=0.01, seed=36) * np.linspace(1, end, 200)
    assert np.mean([steady_problem(classify(series)) is not None for series in values]) >= 0.95


def test_half_of_the_time_is_time_not_blocks() -> None:
    """30 blocks of 3 s are most of the time although 60 blocks of 1 s come after them."""
    steady = classify(np.array([3.0] * 30 + [1.0] * 60))
    assert steady.classification == "none"
    assert steady.start == 30  # the last level is the fastest: the best guess
    assert steady_problem(steady) == "the last level holds 40% of the measured time, 50% is needed"


def test_a_late_slowdown_has_no_steady_window_of_its_own() -> None:
    steady = classify(np.array([1.0] * 60 + [1.5] * 20))
    assert (steady.classification, steady.start, steady.stop) == ("none", 0, 80)
    assert steady_problem(steady) is not None


def test_too_few_blocks_are_flat_but_suspect() -> None:
    steady = classify([100.0, 101.0, 99.0])
    assert steady.classification == "flat"
    assert steady_problem(steady) == "the last level has 3 blocks, 20 are needed"


def test_constant_blocks_are_flat() -> None:
    assert classify(np.full(100, 0.1)).classification == "flat"


def test_a_job_is_warm_when_its_last_rank_is(ar1) -> None:
    job, first, second = np.ones(100), np.ones(100), np.ones(100)
    first[:12] = 1.5
    second[:30] = 1.5
    steady = classify_job(job, [first, second])
    assert (steady.classification, steady.start, steady.stop) == ("warm-up", 30, 100)
    assert [(level.start, level.stop) for level in steady.levels] == [(0, 30), (30, 100)]


def test_many_flat_ranks_do_not_make_a_warm_up(ar1) -> None:
    """64 noisy ranks, each with its own chance of a false alarm, must stay at the false alarms of one."""
    ranks = ar1(0.7, 60, 64 * 10, seed=37).reshape(10, 64, 60)
    assert sum(classify_job(np.ones(60), list(job)).classification != "flat" for job in ranks) <= 2


def test_a_warm_up_that_leaves_too_little_is_a_problem() -> None:
    def job(warm_blocks: int) -> Steady:
        return classify_job(np.ones(60), [np.ones(60), np.where(np.arange(60) < warm_blocks, 1.2, 1.0)])

    assert (job(28).classification, job(28).start, steady_problem(job(28))) == ("warm-up", 28, None)
    assert (job(35).classification, job(35).start) == ("none", 35)
    assert steady_problem(job(35)) == "the last level holds 42% of the measured time, 50% is needed"


def test_ranks_must_match_the_job() -> None:
    with pytest.raises(ValueError, match="as many blocks"):
        classify_job(np.ones(10), [np.ones(9), np.ones(10)])
