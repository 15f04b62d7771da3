import numpy as np
import pytest

from tfscale.suite.timing.statistics import mean_half_width
from tfscale.suite.timing.steady import classify
from tfscale.suite.timing.stopping import LAG, STOP, Decider, LoopSettings, next_size, precise


def stopped_after(seconds: list[float], settings: LoopSettings) -> int:
    """Blocks after which the decider says stop, fed one more block at a time."""
    decider = Decider(settings)
    return next((n for n in range(1, len(seconds) + 1) if decider.decide(seconds[:n]) == STOP), len(seconds))


def test_steady_blocks_stop_at_the_least_number() -> None:
    assert stopped_after([0.3] * 100, LoopSettings(min_s=5)) == 30


def test_min_s_puts_off_the_first_look() -> None:
    assert stopped_after([0.3] * 100, LoopSettings(min_s=15)) == 50


def test_the_budget_ends_a_trial_with_the_blocks_that_follow_counted_in() -> None:
    """Blocks of 1 s and 10 s of budget: 8 have ended, one is in flight and one carries the decision."""
    assert stopped_after([1.0] * 100, LoopSettings(budget_s=10)) == 10 - LAG


def test_a_step_longer_than_the_budget_stops_at_the_first_block() -> None:
    assert stopped_after([100.0] * 10, LoopSettings(budget_s=60)) == 1


def test_only_doublings_are_looked_at() -> None:
    """The first 30 blocks are too noisy; from then on nothing varies, but 59 blocks are not looked at."""
    noisy = (0.3 * (1 + 0.04 * np.random.default_rng(0).normal(size=30))).tolist()
    settings = LoopSettings(target=0.01, min_s=0, budget_s=1e6)
    found = stopped_after(noisy + [0.3] * 300, settings)
    assert found in (60, 120)


def test_a_fixed_number_of_steps_stops_by_itself() -> None:
    assert stopped_after([1.0] * 100, LoopSettings(budget_s=1, max_steps=100)) == 100


def test_a_series_without_steady_state_is_never_precise() -> None:
    assert precise(np.full(60, 0.3), 0.01)
    assert not precise(np.append(np.full(45, 0.3), np.full(15, 0.4)), 0.5)


def test_warm_up_does_not_count_against_precision() -> None:
    assert precise(np.append(np.full(10, 0.9), np.full(50, 0.3)), 0.01)


@pytest.mark.parametrize(
    ("size", "seconds", "expected"),
    [
        (1, 0.2, 1),
        (1, 100.0, 1),
        (1, 0.05, 5),  # 1.25 x 0.2 s / 0.05 s
        (4, 0.1, 9),  # 4 x 1.05 x 0.2 / 0.1 = 8.4
        (1, 1e-5, 16),  # no more than 16-fold at once
        (1, 0.0, 16),
    ],
)
def test_block_size_for_blocks_of_a_fifth_of_a_second(size: int, seconds: float, expected: int) -> None:
    assert next_size(size, seconds, LoopSettings()) == expected


def test_block_size_is_a_multiple_of_the_steps_of_a_call() -> None:
    assert next_size(10, 0.15, LoopSettings(steps_per_call=10)) == 20


def test_a_fixed_number_of_steps_keeps_its_blocks() -> None:
    assert next_size(1, 0.001, LoopSettings(max_steps=300)) == 10
    assert next_size(1, 0.001, LoopSettings(max_steps=20)) == 1
    assert next_size(8, 0.001, LoopSettings(max_steps=320, steps_per_call=8)) == 8


@pytest.mark.parametrize(
    "wrong", [{"target": 0}, {"budget_s": -1}, {"steps_per_call": 0}, {"max_steps": 15, "steps_per_call": 10}]
)
def test_senseless_settings_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        LoopSettings(**wrong)


def test_the_interval_covers_after_sequential_looks(ar1) -> None:
    """Coverage of the final interval where looks at 30, 60, 120, ... decide: >= 93 % at autocorrelation 0.7.

    Noise of 1, 2 and 3 % stops at about 80, 190 and 370 blocks, so that every look decides for some.
    """
    covered = []
    for cv in (0.01, 0.02, 0.03):
        for seconds in ar1(0.7, 962, 300, cv=cv, seed=21):
            blocks = next((n for n in (30, 60, 120, 240, 480) if precise(seconds[:n], 0.01)), 960) + LAG
            steady = classify(seconds[:blocks])
            window = seconds[steady.start : steady.stop]
            covered.append(abs(window.mean() - 1) <= mean_half_width(window))
    assert np.mean(covered) >= 0.93
