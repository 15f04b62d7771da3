"""How much work between two exchanges: the arithmetic from its definition, and a run that decides by a pilot launch."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "toy"))
import fake_launcher as fake
import toy_bench as toy

from tfscale.suite import adaptive, deciding
from tfscale.suite.adaptive import Pilot
from tfscale.suite.notices import Notice
from tfscale.suite.pilot import FILE
from tfscale.suite.plan import RankPlan
from tfscale.suite.rankfiles import write_atomic
from tfscale.suite.spec import Case, Measure

SLOW_LINK = Pilot(step_s=4.5, alone_s=0.5)
"""4 s of 4.5 exposed."""


@pytest.mark.parametrize("share", [0.01, 0.1, 0.25, 0.5, 0.9])
def test_the_least_factor_is_the_least(share: float) -> None:
    """By brute force over all factors: 4 / (0.5 f + 4) <= share."""
    holding = [f for f in range(1, 2000) if 4.0 / (0.5 * f + 4.0) <= share + 1e-12]
    assert adaptive.least_factor(SLOW_LINK, share) == holding[0]


def test_nothing_exposed_needs_nothing_more() -> None:
    faster_with_exchange = Pilot(step_s=0.99, alone_s=1.0)  # noise
    assert adaptive.choose_accumulation(faster_with_exchange, 0.1).value == 1
    assert adaptive.share_at(faster_with_exchange, 1) == 0.0


def test_what_cannot_be_reached_is_said() -> None:
    choice = adaptive.choose_accumulation(Pilot(step_s=1000.0, alone_s=0.001), 0.001)
    assert choice.value == adaptive.MOST
    assert "not reached" in choice.why and choice.expected_share > 0.99


def test_a_batch_grows_by_powers_of_two_as_far_as_memory_goes() -> None:
    assert adaptive.choose_batch(SLOW_LINK, 8, 0.5, None).value == 64  # factor 8: 4 / (4 + 4)
    assert adaptive.choose_batch(SLOW_LINK, 8, 0.4, None).value == 128  # 12 wanted, 16 taken
    bounded = adaptive.choose_batch(SLOW_LINK, 8, 0.5, most=40)
    assert bounded.value == 32 and "40 samples fit in memory" in bounded.why
    assert bounded.expected_share == pytest.approx(4 / (0.5 * 4 + 4))


def test_memory_from_two_peaks() -> None:
    """A model of 100 and 10 a sample: 8 take 180, 16 take 260, 1000 hold 90."""
    assert adaptive.fitting_batch(8, 180, 260, 1000) == 90
    assert adaptive.fitting_batch(8, 180, 260, 10) == 8
    assert adaptive.fitting_batch(8, 180, 180, 1000) is None


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        adaptive.least_factor(SLOW_LINK, share)


def case(**axes: object) -> Case:
    return toy.case(devices=2).with_values(**axes)


def test_one_number_may_be_left_open() -> None:
    assert case(accumulation="auto").undecided == ("accumulation",)
    assert case(accumulation="auto").id != case().id
    with pytest.raises(ValueError, match="auto"):
        case(accumulation="auto", per_replica_batch="auto")
    with pytest.raises(ValueError, match="auto"):
        case(accumulation="auto", per_replica_batch=None, global_batch=8)
    with pytest.raises(ValueError, match="no pilot launch has decided"):
        _ = case(accumulation="auto").step_batch
    for wrong in ("automatic", "2", True, 0):
        with pytest.raises(ValueError, match="accumulation"):
            case(accumulation=wrong)


def piloting(step_s: float, alone_s: float) -> fake.Act:
    """Ranks that find these seconds in a pilot launch and do their work in others."""

    def act(plan: RankPlan) -> int | None:
        if plan.pass_ != "pilot":
            return fake.good(plan)
        found = {"step_s": step_s, "alone_s": alone_s - 0.001 * plan.rank, "memory_bytes": None}
        write_atomic(Path(plan.directory) / FILE, json.dumps(found).encode())
        return fake.good(plan)

    return act


def test_a_run_decides_once_and_records_it(tmp_path: Path) -> None:
    asked = case(accumulation="auto")
    ranks = fake.FakeLauncher(piloting(4.5, 0.5))
    told: list[Notice] = []
    measure = Measure(trials=2, exposed_share=0.5)
    made = toy.sweep([asked], tmp_path, ranks, measure=measure, notify=told.append)
    run = made.run()
    assert not run.failed, run.failed
    assert [record.case["accumulation"] for record in run.records] == [8, 8]  # the slowest rank alone: 0.5 s
    assert {record.case_id for record in run.records} == {asked.id}
    effective = run.records[0].effective
    assert effective["accumulation_asked"] == "auto"
    assert effective["accumulation_chosen"].startswith("8: 4500 ms a step, 500 ms")
    assert effective["expected_exposed_share"] == pytest.approx(0.5)
    assert len(ranks.jobs) == 3  # one pilot, two trials
    assert [notice.kind for notice in told].count("pilot_started") == 1
    kept = deciding.decided(asked, made.folder.case(asked.id), 0.5, None, measure=lambda _: pytest.fail("asked again"))
    assert kept.accumulation == 8


def test_a_pilot_that_fails_ends_its_case(tmp_path: Path) -> None:
    ranks = fake.FakeLauncher(fake.fails("ValueError: no"))
    run = toy.sweep([case(accumulation="auto"), case()], tmp_path, ranks).run()
    assert len(run.failed) == 2 and not run.missing
