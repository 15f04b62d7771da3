"""A run from end to end on a launcher without processes: what is stored, retried, skipped and told."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "toy"))
import fake_launcher as fake
import toy_bench as toy
import toy_worker

from tfscale.suite import store
from tfscale.suite.engine import Sweep, profiled_cases
from tfscale.suite.notices import Notice, Remaining
from tfscale.suite.plan import RankPlan
from tfscale.suite.rankfiles import write_result
from tfscale.suite.spec import Measure, Profile


def sweep(
    results: Path, cases: list[Any], act: fake.Act = fake.good, **options: Any
) -> tuple[Sweep, fake.FakeLauncher]:
    ranks = fake.FakeLauncher(act)
    return toy.sweep(cases, results, ranks, **options), ranks


def fails_if(condition: Any, reason: str = "ValueError: no") -> fake.Act:
    return lambda plan: fake.fails(reason)(plan) if condition(plan) else fake.good(plan)


def test_a_trial_becomes_a_record(tmp_path: Path) -> None:
    made, _ = sweep(tmp_path, [toy.case(devices=2)])
    run = made.run()
    (record,) = run.records
    assert record.id == f"{run.run}/{record.case_id}/0"
    quantities = record.quantities
    assert quantities["global_batch"].value == 8
    assert quantities["step_time"].value == pytest.approx(0.01, rel=0.01)
    assert quantities["throughput"].value == pytest.approx(800, rel=0.01)
    assert quantities["throughput"].unit == "samples/s"
    assert quantities["mfu"].value is None and "no peak" in (quantities["mfu"].reason or "")
    assert quantities["step_time_p95"].value == pytest.approx(0.01)
    assert quantities["memory_peak_host"].value == 10_000_000
    assert record.phases["import"].value == 0.1
    assert record.effective["collective_reason"] == "a toy has none"
    assert record.validity.status == "VALID", record.validity
    assert record.loss["verdict"] == "falling"
    assert (made.folder.trial(record.case_id, 0) / record.files["blocks"]).is_file()
    assert store.load_run(tmp_path).run == run


def test_a_failure_is_stored_and_the_sweep_goes_on(tmp_path: Path) -> None:
    cases = [toy.case("a"), toy.case("good")]
    made, ranks = sweep(tmp_path, cases, fails_if(lambda plan: plan.case.preset == "a"))
    run = made.run()
    assert [failure.case_id for failure in run.failed] == [cases[0].id]
    assert [record.case_id for record in run.records] == [cases[1].id]
    failure = run.failed[0]
    assert (failure.classification, failure.rank, failure.log_tail) == ("error", 0, "the last words")
    assert failure.reproduce == f"tfscale run suite.yaml --only id={cases[0].id}"
    assert all(job.ended == 1 for job in ranks.jobs)


def test_an_error_that_would_recur_is_not_repeated_but_a_lost_rank_is(tmp_path: Path) -> None:
    measure = Measure(trials=3)
    made, ranks = sweep(tmp_path, [toy.case()], fails_if(lambda plan: True), measure=measure)
    assert len(made.run().failed) == len(ranks.jobs) == 1
    made, ranks = sweep(tmp_path, [toy.case()], fails_if(lambda plan: plan.trial == 0, "hung"), measure=measure)
    run = made.run()
    assert [failure.trial for failure in run.failed] == [0]
    assert [record.trial for record in run.records] == [1, 2]


def test_a_taken_port_is_retried_with_new_ones_and_counted(tmp_path: Path) -> None:
    tried: list[dict[str, list[str]]] = []

    def act(plan: RankPlan) -> int | None:
        tried.append(plan.cluster)
        return fake.fails("port_in_use")(plan) if len(tried) == 1 else fake.good(plan)

    made, _ = sweep(tmp_path, [toy.case(devices=1, strategy="Apart"), toy.case()], act)
    run = made.run()
    assert run.records[0].counts["port_retries"] == 1
    assert run.records[1].counts["port_retries"] == 0
    assert not run.failed


def test_a_port_that_stays_taken_is_a_failure(tmp_path: Path) -> None:
    made, ranks = sweep(tmp_path, [toy.case()], fails_if(lambda plan: True, "port_in_use"))
    assert made.run().failed[0].classification == "port_in_use"
    assert len(ranks.jobs) == 4


def test_more_trials_are_run_while_the_target_is_missed(tmp_path: Path) -> None:
    def scattered(plan: RankPlan) -> int:
        fake.good(plan)
        series = toy_worker.series(plan.case.step_batch, step_s=0.01 * (1 + 0.1 * (plan.trial % 2)))
        toy_worker.write_arrays(Path(plan.directory) / "blocks.npz", series.arrays())
        return 0

    wide = Measure(trials=2, max_trials=5, target=0.01)
    made, ranks = sweep(tmp_path, [toy.case()], scattered, measure=wide)
    assert len(made.run().records) == 5
    made, ranks = sweep(tmp_path, [toy.case()], measure=Measure(trials=2, max_trials=5, target=0.01))
    assert len(made.run().records) == len(ranks.jobs) == 2


def test_the_profile_is_a_launch_of_its_own_after_the_record_retried_and_counted(tmp_path: Path) -> None:
    attempts: list[bool] = []

    def act(plan: RankPlan) -> int | None:
        if plan.pass_ == "timed":
            assert plan.profile is None
            return fake.good(plan)
        attempts.append(made.folder.trial(plan.case_id, 0).joinpath("record.json").is_file())
        assert plan.profile_directory == str(made.folder.profile(plan.case_id) / "rank0")
        return fake.good(plan) if len(attempts) == 3 else -6

    made, _ = sweep(tmp_path, [toy.case(devices=1)], act, profile=Profile(retries=3))
    (record,) = made.run().records
    assert attempts == [True, True, True]
    assert record.counts["profiler_retries"] == 2
    assert record.files["profile"] == "../profile"


def test_a_profile_that_never_works_leaves_the_record(tmp_path: Path) -> None:
    made, _ = sweep(
        tmp_path, [toy.case()], lambda p: -6 if p.pass_ == "profiled" else fake.good(p), profile=Profile(retries=1)
    )
    run = made.run()
    assert not run.failed
    assert run.records[0].effective["profile"] is None
    assert "lost_rank: ended by SIGABRT" in run.records[0].effective["profile_reason"]
    assert "profile" not in run.records[0].files


def test_resume_runs_only_what_is_missing(tmp_path: Path) -> None:
    cases = [toy.case("a"), toy.case("b"), toy.case("good")]
    made, _ = sweep(tmp_path, cases, measure=Measure(trials=2))
    made.run()
    lost = made.folder.trial(cases[1].id, 1) / "record.json"
    lost.write_bytes(lost.read_bytes()[:100])
    again, ranks = sweep(tmp_path, cases, measure=Measure(trials=2), folder=made.folder)
    assert len(again.run().records) == 6
    assert [(plan.case_id, plan.trial) for plan in ranks.launched] == [(cases[1].id, 1)]


def test_resume_makes_up_for_a_missing_profile(tmp_path: Path) -> None:
    made, _ = sweep(tmp_path, [toy.case()])
    made.run()
    again, ranks = sweep(tmp_path, [toy.case()], folder=made.folder, profile=Profile())
    assert again.run().records[0].files["profile"] == "../profile"
    assert [plan.pass_ for plan in ranks.launched] == ["profiled"]


def test_one_interrupt_ends_after_the_case_two_end_now(tmp_path: Path) -> None:
    cases = [toy.case("a"), toy.case("good")]
    made, ranks = sweep(
        tmp_path, cases, lambda plan: (made.interrupt.request(), fake.good(plan))[1], measure=Measure(trials=2)
    )
    made.interrupt.request()
    made.interrupt._requests = -3  # two ranks and two trials make four requests: the count is 1 at the end of the case
    assert [record.case_id for record in made.run().records] == [cases[0].id] * 2
    made, ranks = sweep(tmp_path, cases, lambda plan: (made.interrupt.request(), fake.good(plan))[1])
    run = made.run()
    assert not run.records and not run.failed
    assert ranks.jobs[0].ended == 1


def test_a_failed_self_check_makes_the_record_invalid(tmp_path: Path) -> None:
    def unchecked(plan: RankPlan) -> int:
        fake.good(plan)
        write_result(Path(plan.directory), toy_worker.result(plan, passed=plan.rank != 1, replicas=1))
        return 0

    made, _ = sweep(tmp_path, [toy.case()], unchecked)
    run = made.run()
    assert run.cases[0].validity.status == "INVALID"
    wrong = {check.name for check in run.records[0].validity.checks if check.status == "INVALID"}
    assert wrong == {"self_check", "replicas"}


def test_results_that_do_not_fit_are_a_failure(tmp_path: Path) -> None:
    def differs(plan: RankPlan) -> int:
        fake.good(plan)
        series = toy_worker.series(plan.case.step_batch + plan.rank)
        toy_worker.write_arrays(Path(plan.directory) / "blocks.npz", series.arrays())
        return 0

    made, _ = sweep(tmp_path, [toy.case()], differs)
    assert "disagrees with rank 0 about the samples" in made.run().failed[0].reason


def test_replicas_that_run_apart_add_up(tmp_path: Path) -> None:
    def apart(plan: RankPlan) -> int:
        fake.good(plan)
        series = toy_worker.series(plan.case.micro_batch)
        toy_worker.write_arrays(Path(plan.directory) / "blocks.npz", series.arrays())
        write_result(Path(plan.directory), toy_worker.result(plan, passed=None, replicas=1))
        return 0

    made, _ = sweep(tmp_path, [toy.case(devices=2, strategy="Apart")], apart)
    (record,) = made.run().records
    assert record.quantities["throughput"].value == pytest.approx(800, rel=0.01)
    assert record.quantities["throughput"].ci95 is not None
    assert record.validity.status == "VALID", record.validity


def test_a_fixed_number_of_steps_claims_no_interval(tmp_path: Path) -> None:
    made, _ = sweep(tmp_path, [toy.case()], measure=Measure(trials=1, steps=80))
    quantities = made.run().records[0].quantities
    assert quantities["step_time"].ci95 is None and quantities["throughput"].ci95 is None


def test_what_is_told(tmp_path: Path) -> None:
    told: list[Notice] = []
    made, _ = sweep(tmp_path, [toy.case()], profile=Profile(), notify=told.append)
    made.run()
    kinds = [notice.kind for notice in told if notice.kind != "event"]
    assert kinds == ["case_started", "trial_started", "trial_done", "profile_started", "profile_done", "case_done"]
    assert told[-1].left_s == 0


def test_profiled_cases() -> None:
    cases = [toy.case("a", devices=n) for n in (1, 2)]
    assert profiled_cases(cases, None) == set()
    assert profiled_cases(cases, Profile()) == {case.id for case in cases}
    assert profiled_cases(cases, Profile(only={"devices": 2})) == {cases[1].id}
    assert profiled_cases([*cases, toy.case("b")], Profile(only={"devices": 2})) == {cases[1].id}
    files = toy.case("a", input="files")
    assert profiled_cases([files, *cases], Profile(only={"input": "synthetic"})) == {cases[0].id}
    assert profiled_cases([*cases, files], Profile(only={"input": {"kind": "files"}})) == {files.id}


def test_remaining_time() -> None:
    now = [0.0]
    left = Remaining(3, Measure(budget_s=10), clock=lambda: now[0])
    assert left.seconds == 60
    left.begin()
    now[0] = 5
    assert left.seconds == 55
    now[0] = 8
    left.end()
    assert left.seconds == 16
    left.skip(1)
    assert left.seconds == 8
