"""Which failures are tried again, how often, and what is kept of the attempts."""

import sys
from pathlib import Path
from typing import get_args

import pytest

sys.path.insert(0, str(Path(__file__).parent / "toy"))
import fake_launcher as fake
import toy_bench as toy

from tfscale.suite.notices import Notice
from tfscale.suite.plan import RankPlan
from tfscale.suite.record import FaultClass, Run
from tfscale.suite.retrying import INFRASTRUCTURE
from tfscale.suite.spec import Measure


def run(tmp_path: Path, act: fake.Act, retries: int = 2) -> tuple[Run, int, list[Notice]]:
    ranks, told = fake.FakeLauncher(act), list[Notice]()
    measure = Measure(trials=1, retries=retries)
    made = toy.sweep([toy.case(devices=1)], tmp_path, ranks, measure, notify=told.append)
    return made.run(), len(ranks.jobs), told


def first(count: int, reason: str) -> fake.Act:
    """The first `count` launches fail."""
    left = iter([reason] * count)
    return lambda plan: fake.fails(failed)(plan) if (failed := next(left, None)) else fake.good(plan)


def test_a_lost_rank_is_tried_again_and_the_record_says_so(tmp_path: Path) -> None:
    document, launches, told = run(tmp_path, first(2, "lost_rank"))
    (record,) = document.records
    assert not document.failed and launches == 3
    assert [(retry.classification, retry.rank, retry.log_tail) for retry in record.retries] == [
        ("lost_rank", 0, "the last words")
    ] * 2
    assert [notice.kind for notice in told].count("trial_retry") == 2


def test_a_failure_keeps_the_attempts_before_it(tmp_path: Path) -> None:
    document, launches, _ = run(tmp_path, first(9, "join_timeout"))
    (failure,) = document.failed
    assert (failure.classification, launches) == ("join_timeout", 3)
    assert [retry.classification for retry in failure.retries] == ["join_timeout"] * 2


def test_no_retries_where_none_are_wanted(tmp_path: Path) -> None:
    document, launches, _ = run(tmp_path, first(1, "never_started"), retries=0)
    assert document.failed and launches == 1 and not document.failed[0].retries


@pytest.mark.parametrize("reason", sorted(set(get_args(FaultClass)) - set(INFRASTRUCTURE) - {"port_in_use"}))
def test_what_the_case_did_is_not_tried_again(reason: str, tmp_path: Path) -> None:
    document, launches, _ = run(tmp_path, first(1, reason if reason != "error" else "ValueError: no"))
    assert [failure.classification for failure in document.failed] == [reason]
    assert launches == 1


def test_an_attempt_leaves_no_files_for_the_next(tmp_path: Path) -> None:
    seen: list[bool] = []

    def act(plan: RankPlan) -> int | None:
        seen.append((Path(plan.directory) / "log.txt").exists())
        return fake.fails("lost_rank")(plan) if len(seen) == 1 else fake.good(plan)

    run(tmp_path, act)
    assert seen == [False, False]
