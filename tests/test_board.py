"""Where cases stand, and which of many fit on a screen."""

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "toy"))
import toy_bench as toy

from tfscale.suite.board import Board, State, label
from tfscale.suite.notices import Kind, Notice
from tfscale.suite.record import Quantity
from tfscale.suite.spec import Case

TIME = Quantity(value=0.0125, unit="s", kind="measured", statistic="mean")
DONE = SimpleNamespace(quantities={"step_time": TIME}, validity=SimpleNamespace(status="VALID"))
LOST = SimpleNamespace(classification="lost_rank", reason="ended by SIGKILL", rank=1)


def tell(board: Board, case: Case, *kinds: Kind, **detail: Any) -> None:
    for kind in kinds:
        board.take(Notice(kind, case, 0, detail, 5.0))


def test_a_case_goes_from_waiting_to_its_value() -> None:
    case = toy.case()
    board = Board([case])
    row = board.rows[case.id]
    assert (row.state, row.told) == ("waiting", "")
    tell(board, case, "case_started", "trial_started")
    tell(board, case, "event", event={"event": "phase", "name": "joined"})
    assert (row.state, row.told) == ("running", "trial 1: joined")
    tell(board, case, "event", event={"event": "progress", "step": 7})
    assert row.told == "trial 1: step 7"
    tell(board, case, "trial_done", record=DONE)
    tell(board, case, "case_done")
    assert (row.state, row.told) == ("done", "12.5 ms a step, VALID")
    assert board.left_s == 5.0


def test_a_retry_and_a_failure_are_told() -> None:
    good, bad = toy.numbered(["good", "good"])
    board = Board([good, bad])
    for case in (good, bad):
        tell(board, case, "case_started", "trial_started")
        tell(board, case, "trial_retry", retry=LOST)
    tell(board, good, "trial_done", record=DONE)
    tell(board, bad, "trial_failed", failure=LOST)
    tell(board, good, "case_done")
    tell(board, bad, "case_done")
    assert board.rows[good.id].told == "retried 1x; 12.5 ms a step, VALID"
    assert board.rows[bad.id].told == "retried 1x; lost_rank: ended by SIGKILL"
    assert board.counts() == Counter({"done": 1, "failed": 1, "retried": 2})


def test_a_case_of_which_one_trial_failed_is_done_and_says_so() -> None:
    case = toy.case()
    board = Board([case])
    tell(board, case, "case_started", "trial_started")
    tell(board, case, "trial_done", record=DONE)
    tell(board, case, "trial_failed", failure=LOST)
    tell(board, case, "case_done")
    assert board.rows[case.id].told == "12.5 ms a step, VALID; lost_rank: ended by SIGKILL"
    assert board.rows[case.id].state == "done"


def test_a_case_that_a_resumed_run_skips_was_kept() -> None:
    case = toy.case()
    board = Board([case])
    tell(board, case, "case_started", "case_done")
    assert board.rows[case.id].told == "kept from before"


def test_the_label_names_what_differs() -> None:
    cases = [toy.case(devices=n, xla=xla) for n in (1, 2) for xla in ("none", "cluster")]
    assert [row.label for row in Board(cases).rows.values()] == [
        "x1 xla=none", "x1 xla=cluster", "x2 xla=none", "x2 xla=cluster"
    ]  # fmt: skip
    assert label(cases[0], ["workload", "preset"]) == "toy_bench:WORKLOAD good"


def board_of(states: list[State]) -> Board:
    board = Board(toy.numbered(["good"] * len(states)))
    for row, state in zip(board.rows.values(), states, strict=True):
        row.state = state
    return board


def shown(board: Board, most: int) -> list[int]:
    rows, hidden = board.window(most)
    assert len(rows) + sum(hidden.values()) == len(board.rows)
    every = list(board.rows.values())
    return [next(at for at, row in enumerate(every) if row is chosen) for chosen in rows]


def test_a_window_holds_what_runs_the_newest_failures_and_its_neighbours() -> None:
    states: list[State] = ["done"] * 100 + ["running"] + ["waiting"] * 99
    assert shown(board_of(states), 7) == [97, 98, 99, 100, 101, 102, 103]
    states[3] = states[50] = states[51] = "failed"
    assert shown(board_of(states), 7) == [50, 51, 98, 99, 100, 101, 102]
    assert shown(board_of(states), 1) == [100]


def test_a_window_has_no_empty_lines_while_there_are_rows() -> None:
    for done in range(10):
        states: list[State] = ["done"] * done + ["waiting"] * (9 - done)
        assert len(shown(board_of(states), 5)) == 5
    assert len(shown(board_of(["failed"] * 9), 5)) == 5
    assert shown(board_of(["waiting"] * 3), 5) == [0, 1, 2]
