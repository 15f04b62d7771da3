"""The lost-efficiency waterfall: sums to one, by hand and for any numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfscale.suite.analysis.waterfall import waterfall
from tfscale.suite.profiling.breakdown import PARTS

MS = 10**9


def breakdown(*values: int, wait: int | None = None) -> dict:
    """A breakdown with these parts in milliseconds, in the order of PARTS."""
    return {
        "span_ps": sum(values) * MS,
        "parts": dict(zip(PARTS, (value * MS for value in values), strict=True)),
        "exposed_wait_ps": None if wait is None else wait * MS,
    }


def test_by_hand() -> None:
    """80 ms on one device, 100 ms on two: 80 % and 20 points, of which 15 are communication (5 waiting)."""
    base, other = breakdown(80, 0, 0, 0, 0, 0, wait=0), breakdown(82, 15, 0, 3, 0, 0, wait=5)
    found = waterfall(base, other, 0.080, 0.100)
    assert found.efficiency == pytest.approx(0.8)
    assert {name: round(100 * share, 9) for name, share in found.lost.items()} == {
        "compute": 2, "exposed_wait": 5, "exposed_transfer": 10, "exposed_copy": 0, "input_wait": 3, "host_overhead": 0,
        "idle": 0, "profiler": 0, "unexplained": 0,
    }  # fmt: skip


def test_what_the_profiler_adds_is_taken_out() -> None:
    """Profiled steps of 90 and 120 ms, timed 80 and 100: of the 30 ms more, 10 are the profiler's."""
    found = waterfall(breakdown(90, 0, 0, 0, 0, 0), breakdown(90, 0, 0, 0, 0, 30), 0.080, 0.100)
    assert found.lost["idle"] == pytest.approx(0.3)
    assert found.lost["profiler"] == pytest.approx(-0.1)
    assert found.lost["exposed_communication"] == 0
    assert found.lost["unexplained"] == pytest.approx(0, abs=1e-12)


def test_strong_scaling_expects_a_share_of_the_step() -> None:
    """100 ms on one device should be 50 on two; 60 were taken: 83.3 %, and 10 of 60 ms lost to communication."""
    found = waterfall(breakdown(100, 0, 0, 0, 0, 0), breakdown(50, 10, 0, 0, 0, 0), 0.100, 0.060, scale=0.5)
    assert found.efficiency == pytest.approx(50 / 60)
    assert found.lost["exposed_communication"] == pytest.approx(10 / 60)
    assert found.lost["compute"] == pytest.approx(0)


times = st.lists(st.integers(0, 1000), min_size=6, max_size=6).filter(any)


@given(times, times, st.floats(0.001, 1), st.floats(0.001, 1), st.sampled_from([1.0, 0.5, 0.125]))
def test_it_always_sums_to_one(before: list[int], after: list[int], t0: float, t1: float, scale: float) -> None:
    found = waterfall(breakdown(*before), breakdown(*after), t0, t1, scale)
    assert found.efficiency + sum(found.lost.values()) == pytest.approx(1, abs=1e-9)
    size = max(sum(before), sum(after), 1) * 1e-3 / t1
    assert abs(found.lost["unexplained"]) < 1e-9 * max(size, 1)


def test_a_step_takes_time() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        waterfall(breakdown(1, 0, 0, 0, 0, 0), breakdown(1, 0, 0, 0, 0, 0), 0.0, 1.0)
