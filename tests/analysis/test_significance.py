"""The tail of the largest step, and false-discovery control against its definition."""

import math
import random

import numpy as np
import pytest

from tfscale.suite.analysis import significance


def brute_force_q(p: list[float]) -> list[float]:
    """Benjamini and Hochberg (1995) by definition: the least rate at which each hypothesis is rejected."""
    count = len(p)

    def rejected(rate: float) -> set[int]:
        order = sorted(range(count), key=lambda i: p[i])
        last = max((k for k in range(1, count + 1) if p[order[k - 1]] <= k * rate / count + 1e-12), default=0)
        limit = p[order[last - 1]] if last else -1.0
        return {i for i in range(count) if p[i] <= limit}

    rates = sorted({min(1.0, value * count / k) for value in p for k in range(1, count + 1)} | {1.0})
    return [next(rate for rate in rates if i in rejected(rate)) for i in range(count)]


def test_false_discovery_control_is_benjamini_hochbergs() -> None:
    draw = random.Random(5)
    for count in (1, 2, 3, 7, 15):
        for _ in range(20):
            p = [round(draw.random() ** 3, 3) for _ in range(count)]
            assert significance.benjamini_hochberg(p) == pytest.approx(brute_force_q(p))


def test_the_example_of_the_paper() -> None:
    """Benjamini and Hochberg (1995), section 3.2: at 0.05 the first four of fifteen are rejected."""
    p = [
        0.0001,
        0.0004,
        0.0019,
        0.0095,
        0.0201,
        0.0278,
        0.0298,
        0.0344,
        0.0459,
        0.3240,
        0.4262,
        0.5719,
        0.6528,
        0.7590,
        1.0,
    ]
    assert [q <= 0.05 for q in significance.benjamini_hochberg(p)] == [True] * 4 + [False] * 11


@pytest.mark.parametrize("n", [14, 40, 100])
@pytest.mark.parametrize("rho", [0.0, 0.4])
def test_under_no_change_small_p_are_as_rare_as_they_say(n: int, rho: float) -> None:
    statistics = significance.simulated_tail(n, rho, seed=777 + n, repeats=4000)
    p = np.array([significance.step_p(one, n) for one in statistics])
    for level in (0.05, 0.01):
        # Three standard errors of a share of 4,000.
        assert float(np.mean(p <= level)) <= level + 3 * math.sqrt(level * (1 - level) / 4000)


def test_p_falls_with_the_step_and_a_step_without_noise_is_certain() -> None:
    noise = np.random.default_rng(1).normal(0, 1, 40)
    steps = [noise + height * (np.arange(40) >= 25) for height in (0, 1, 2, 4)]
    p = [significance.step_p(significance.step_statistic(values, 25), 40) for values in steps]
    assert p == sorted(p, reverse=True) and p[0] > 0.05 and p[-1] <= 0.001
    clean = np.where(np.arange(40) >= 25, 2.0, 1.0)
    assert math.isinf(significance.step_statistic(clean, 25))
    assert significance.step_p(math.inf, 40) == significance.LEAST_P
    assert significance.step_statistic(np.ones(40), 20) == 0 and significance.step_p(0.0, 40) == 1.0


def test_the_error_of_independent_values_is_at_least_the_textbooks() -> None:
    values = np.random.default_rng(2).normal(0, 1, 400)
    textbook = math.sqrt(values.var(ddof=1) * (1 / 200 + 1 / 200))
    assert textbook * 0.98 < significance.standard_error(values, 200) < textbook * 1.25


def test_too_few_values_on_a_side_are_refused() -> None:
    with pytest.raises(ValueError, match="3 values on either side, got 2 and 8"):
        significance.step_statistic(np.arange(10.0), 2)
