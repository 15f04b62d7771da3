"""The watch on jobs without processes: settling, notes, frozen ranks, servers, and being stopped."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "toy"))
import fake_launcher as fake
import toy_bench as toy

from tfscale.suite.plan import RankPlan
from tfscale.suite.watch import Outcome, Stopped, log_tail, watch

RESET = "UnavailableError: Connection reset by peer"


def run(plans: list[RankPlan], *acts: fake.Act, **options: float) -> Outcome:
    job = fake.FakeJob([act(plan) for act, plan in zip(acts, plans, strict=True)])
    return watch(job, plans, settle_s=0.1, leave_s=0.1, **options)  # type: ignore[arg-type]


def stays(plan: RankPlan) -> None:
    fake.phases(plan, fake.UNTIL_WRITTEN[:3])


def test_a_good_job(tmp_path: Path) -> None:
    outcome = run(toy.plans(toy.case(), tmp_path), fake.good, fake.good)
    assert outcome == Outcome(None)


def test_an_error_after_the_result_is_a_note(tmp_path: Path) -> None:
    def late(plan: RankPlan) -> int:
        fake.good(plan)
        fake.phases(plan, ()).error(RESET, "")
        return 1

    outcome = run(toy.plans(toy.case(), tmp_path), fake.good, late)
    assert outcome.failure is None
    assert outcome.notes == (f"rank 1 after its result was written: {RESET}",)


def test_a_rank_that_does_not_leave_is_a_note(tmp_path: Path) -> None:
    def lingers(plan: RankPlan) -> None:
        fake.good(plan)

    outcome = run(toy.plans(toy.case(), tmp_path), fake.good, lingers)
    assert outcome.failure is None and "had not exited 0.1 s" in outcome.notes[0]


def test_the_first_cause_with_its_log_and_the_stacks_of_those_that_run_on(tmp_path: Path) -> None:
    outcome = run(toy.plans(toy.case(), tmp_path), stays, fake.fails("ValueError: wrong"))
    assert outcome.failure is not None
    assert (outcome.failure.classification, outcome.failure.rank) == ("error", 1)
    assert outcome.log_tail == "the last words"
    assert outcome.stacks == "rank 0 (worker):\nstack of rank 0"


class Freezing(fake.FakeJob):
    def state(self, rank: int) -> str | None:
        return "T" if rank == 1 else "S"


def test_a_frozen_rank_is_named_when_survivors_notice(tmp_path: Path) -> None:
    plans = toy.plans(toy.case(), tmp_path)
    job = Freezing([fake.fails(RESET)(plans[0]), stays(plans[1])])  # type: ignore[func-returns-value]
    outcome = watch(job, plans, settle_s=0.1)
    assert outcome.failure is not None
    assert (outcome.failure.classification, outcome.failure.rank) == ("lost_rank", 1)


def test_a_late_exit_code_is_waited_for(tmp_path: Path) -> None:
    plans = toy.plans(toy.case(), tmp_path)

    class Late(fake.FakeJob):
        looks = 0

        def exit_codes(self) -> list[int | None]:
            self.looks += 1
            return [1, -9 if self.looks > 3 else None]

    fake.fails(RESET)(plans[0])
    stays(plans[1])
    outcome = watch(Late([]), plans, settle_s=5)
    assert outcome.failure is not None
    assert (outcome.failure.classification, outcome.failure.rank) == ("lost_rank", 1)


def as_roles(plans: list[RankPlan], *roles: str) -> list[RankPlan]:
    return [plan.model_copy(update={"role": role}) for plan, role in zip(plans, roles, strict=True)]


def test_servers_need_no_result(tmp_path: Path) -> None:
    plans = as_roles(toy.plans(toy.case(devices=3), tmp_path), "coordinator", "worker", "ps")
    assert run(plans, fake.good, stays, stays) == Outcome(None)


def test_a_server_that_dies_ends_the_job(tmp_path: Path) -> None:
    plans = as_roles(toy.plans(toy.case(devices=3), tmp_path), "coordinator", "worker", "ps")

    def dies(plan: RankPlan) -> int:
        stays(plan)
        return -9

    outcome = run(plans, stays, stays, dies)
    assert outcome.failure is not None
    assert (outcome.failure.classification, outcome.failure.rank) == ("lost_rank", 2)


def test_it_can_be_stopped(tmp_path: Path) -> None:
    plans = toy.plans(toy.case(), tmp_path)
    with pytest.raises(Stopped):
        watch(fake.FakeJob([None, None]), plans, stop=lambda: True)


def test_the_log_tail_is_short_and_never_fails(tmp_path: Path) -> None:
    plan = toy.plans(toy.case(), tmp_path)[0]
    assert log_tail(plan) == ""
    Path(plan.directory).mkdir()
    (Path(plan.directory) / "log.txt").write_bytes(b"\xff\n" + b"line\n" * 100_000 + b"end")
    assert log_tail(plan).splitlines() == ["line"] * 39 + ["end"]
