"""Ranks that exchange nothing start together and act on one rank's decisions at the same dispatch."""

import threading
from pathlib import Path

import pytest

from tfscale.suite import control
from tfscale.suite.control import Control, ControlTimeoutError


def ranks(folder: Path, count: int = 2, timeout_s: float = 5.0) -> list[Control]:
    return [Control(folder, rank, count, timeout_s) for rank in range(count)]


def test_all_meet_at_the_barrier(tmp_path: Path) -> None:
    order: list[str] = []
    first, second = ranks(tmp_path)

    def come() -> None:
        first.barrier()
        order.append("first left")

    thread = threading.Thread(target=come)
    thread.start()
    order.append("second comes")
    second.barrier()
    thread.join(5)
    assert order == ["second comes", "first left"]


def test_values_belong_to_dispatches(tmp_path: Path) -> None:
    first, second = ranks(tmp_path)
    for value in (0.0, 12.0, -1.0):
        first.dispatched(value)
    numbers = [second.dispatched(99.0) for _ in range(3)]
    assert numbers == [0, 1, 2]
    assert [second.value(number) for number in numbers] == [0.0, 12.0, -1.0]
    assert [first.value(number) for number in numbers] == [0.0, 12.0, -1.0]


def test_a_value_is_waited_for(tmp_path: Path) -> None:
    first, second = ranks(tmp_path)
    threading.Timer(0.05, first.dispatched, [7.0]).start()
    assert second.value(0) == 7.0


def test_late_ranks_are_named(tmp_path: Path) -> None:
    first, second = ranks(tmp_path, timeout_s=0.05)
    with pytest.raises(ControlTimeoutError, match=r"ranks \[1\] have not reached the barrier"):
        first.barrier()
    with pytest.raises(ControlTimeoutError, match=r"ranks \[0\] have not dispatched group 0"):
        second.value(0)


def test_the_deciding_rank_does_not_run_away(tmp_path: Path) -> None:
    first, second = ranks(tmp_path, timeout_s=0.05)
    for _ in range(control.LEAD + 1):
        first.dispatched(0.0)
    with pytest.raises(ControlTimeoutError, match=r"\[1\]"):
        first.dispatched(0.0)
    second.dispatched(0.0)
    first.dispatched(0.0)
