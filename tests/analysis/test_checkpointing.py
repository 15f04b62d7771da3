"""Checkpoint periods against the numbers of Daly's paper, Lambert's W, and failures drawn one by one."""

import math

import numpy as np
import pytest
from scipy.special import lambertw

from tfscale.suite.analysis.checkpointing import best_steps, daly, elapsed, overhead, young

MINUTE, HOUR = 60.0, 3600.0


@pytest.mark.parametrize(
    ("mtbf_s", "minutes", "digits"), [(24 * HOUR, 117, 0), (6 * HOUR, 57, 0), (15 * MINUTE, 9.1, 1)]
)
def test_periods_of_the_paper(mtbf_s: float, minutes: float, digits: int) -> None:
    """Captions of figures 3 to 5 of Daly 2006: a dump takes 5 minutes."""
    assert round(daly(5 * MINUTE, mtbf_s) / MINUTE, digits) == minutes


def test_first_order() -> None:
    assert young(5 * MINUTE, 24 * HOUR) == 120 * MINUTE  # sqrt(2 x 5 x 1440)
    assert young(0, HOUR) == 0 == daly(0, HOUR)
    assert daly(2 * HOUR, HOUR) == HOUR  # a dump as long as twice the time between failures, and longer


@pytest.mark.parametrize("ratio", [1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0])
def test_the_higher_order_is_near_the_exact_optimum(ratio: float) -> None:
    """The derivative of the complete model is zero at t = M (1 + W0(-exp(-1 - d / M)))."""
    cost = ratio * HOUR
    exact = HOUR * (1 + lambertw(-math.exp(-1 - ratio)).real)
    assert daly(cost, HOUR) == pytest.approx(exact, rel=0.05)
    least = elapsed(1, exact, cost, 0, HOUR)
    assert least < elapsed(1, 0.9 * exact, cost, 0, HOUR)
    assert least < elapsed(1, 1.1 * exact, cost, 0, HOUR)
    assert elapsed(1, daly(cost, HOUR), cost, 0, HOUR) <= elapsed(1, young(cost, HOUR), cost, 0, HOUR)


def simulated(
    draw: np.random.Generator, segments: int, period: float, cost: float, restart: float, mtbf: float
) -> float:
    """Elapsed seconds of one job, failure by failure; coming back may itself fail."""
    now, until = 0.0, draw.exponential(mtbf)
    for _ in range(segments):
        needed = period + cost
        while until < needed:
            now, until, needed = now + until, draw.exponential(mtbf), restart + period + cost
        now, until = now + needed, until - needed
    return now


@pytest.mark.parametrize(
    ("period", "cost", "restart"), [(900.0, 60.0, 120.0), (300.0, 60.0, 120.0), (1800.0, 300.0, 600.0)]
)
def test_the_model_against_failures_drawn_one_by_one(period: float, cost: float, restart: float) -> None:
    draw = np.random.default_rng(2006)
    segments, jobs, mtbf = 100, 300, HOUR
    times = np.array([simulated(draw, segments, period, cost, restart, mtbf) for _ in range(jobs)])
    expected = elapsed(segments * period, period, cost, restart, mtbf)
    # What comes back pays for R even where a failure meets it: in the model too, so the two agree to the noise.
    assert abs(times.mean() - expected) < 4 * times.std() / math.sqrt(jobs)


@pytest.mark.parametrize("mtbf_s", [20.0, 300.0, HOUR, 24 * HOUR])
@pytest.mark.parametrize("step_s", [0.02, 0.7, 30.0])
def test_the_best_whole_number_of_steps_is_the_best_of_all(step_s: float, mtbf_s: float) -> None:
    cost, restart = 1.5, 12.0
    best = best_steps(step_s, cost, restart, mtbf_s)
    most = int(4 * young(cost, mtbf_s) / step_s) + 10
    brute = min(range(1, most), key=lambda steps: overhead(steps * step_s, cost, restart, mtbf_s))
    assert best.overhead == pytest.approx(overhead(brute * step_s, cost, restart, mtbf_s), rel=1e-12)
    assert abs(best.steps - brute) <= 1


def test_no_period_helps_where_failures_come_faster_than_a_step() -> None:
    assert best_steps(1000.0, 1.0, 1.0, 1.0).overhead == math.inf


@pytest.mark.parametrize(("cost", "mtbf"), [(-1.0, 1.0), (1.0, 0.0)])
def test_what_is_no_cost_is_refused(cost: float, mtbf: float) -> None:
    with pytest.raises(ValueError, match="apart"):
        daly(cost, mtbf)
