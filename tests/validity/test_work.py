from dataclasses import replace

import pytest
from judged import evidence, only

from tfscale.suite.rankfiles import SelfCheck
from tfscale.suite.validity import work
from tfscale.suite.validity.judging import judge_trial


def test_a_good_trial_has_no_doubt() -> None:
    answers = judge_trial(evidence())
    assert {check.status for check in answers} <= {"VALID", "UNKNOWN"}
    assert {"samples", "replicas", "self_check", "steady_state", "learning"} <= {check.name for check in answers}


@pytest.mark.parametrize(("counted", "status"), [(8.0, "VALID"), (16.0, "INVALID"), (7.999, "INVALID")])
def test_counted_samples_are_the_planned_batch(counted: float, status: str) -> None:
    found = evidence()
    found = replace(found, timing=replace(found.timing, global_batch=counted))
    check = only(work.samples(found))
    assert (check.status, check.evidence) == (status, {"counted": counted, "planned": 8})


def test_a_worker_that_trains_alone_is_invalid() -> None:
    checks = list(work.replicas(evidence(strategy="multi_worker_mirrored", devices=2, result={"replicas": 1})))
    assert [check.status for check in checks] == ["INVALID", "INVALID"]


@pytest.mark.parametrize(("passed", "status"), [(True, "VALID"), (None, "VALID"), (False, "INVALID")])
def test_gradients_must_have_been_aggregated(passed: bool | None, status: str) -> None:
    check = only(work.self_check(evidence(result={"self_check": SelfCheck(passed=passed, detail="told")})))
    assert check.status == status


def test_a_retraced_step_is_suspect() -> None:
    assert not list(work.retraces(evidence(result={"counts": {"retraces": 0}})))
    assert only(work.retraces(evidence(result={"counts": {"retraces": 3}}))).status == "SUSPECT"


def test_ranks_that_differ_are_named() -> None:
    found = evidence(strategy="multi_worker_mirrored", devices=2, result={"effective": {"xla": "none", "math": "tf32"}})
    other = replace(
        found.ranks[1],
        result=found.ranks[1].result.model_copy(update={"effective": {"xla": "none", "math": "float32"}}),
    )
    assert not list(work.same_on_all_ranks(found))
    check = only(work.same_on_all_ranks(replace(found, ranks=[found.ranks[0], other])))
    assert (check.status, check.evidence) == ("SUSPECT", {"math": ["tf32", "float32"]})
