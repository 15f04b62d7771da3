"""Which trainings a run needs: one for all cases that the network alone tells apart, and one of `none` to hold it against."""

from typing import Any

from tfscale.suite.spec import Case, TargetLoss
from tfscale.suite.trainings import trainings, unlinked

LINK = {"hosts": 2, "link": "100Mbit"}
TWO = TargetLoss(seeds=2)


def case(**axes: Any) -> Case:
    head = {"workload": "bert", "preset": "tiny", "strategy": "multi_worker_mirrored", "devices": 2}
    return Case.model_validate({**head, "per_replica_batch": 8, **axes})


def test_cases_that_differ_in_the_network_are_trained_once_for_each_seed() -> None:
    cases = [
        case(exchange=exchange, **place)
        for exchange in ("fp16", "none")
        for place in ({}, {"topology": LINK}, {"topology": {**LINK, "link": "1Gbit"}, "steps_per_call": 10})
    ]
    found = trainings(cases, TWO)
    assert [(each.case.exchange, each.case.seed) for each in found] == [
        ("none", 0),
        ("fp16", 0),
        ("none", 1),
        ("fp16", 1),
    ]
    assert all(each.case == unlinked(each.case) and each.case.topology is None for each in found)
    base, lossy = found[2:]
    assert base.base is None and lossy.base == base.case
    assert lossy.stands_for == tuple(each.id for each in cases[:3])
    assert base.stands_for == tuple(each.id for each in cases[3:])
    assert {each.data_seed for each in found} == {0}


def test_an_exact_exchange_is_not_trained_and_no_lossy_one_needs_none() -> None:
    assert trainings([case(), case(exchange="none(pack_mib=4)"), case(strategy="independent")], TWO) == []
    found = trainings([case(exchange="none(pack_mib=4)", seed=3), case(exchange="bf16", seed=3)], TargetLoss(seeds=1))
    assert [each.case.exchange for each in found] == ["none", "bf16"]
    assert found[0].stands_for == (case(exchange="none(pack_mib=4)", seed=3).id,)
    assert [each.case.seed for each in found] == [3, 3]


def test_a_base_that_the_suite_has_not_is_trained_all_the_same() -> None:
    found = trainings([case(exchange="fp16")], TargetLoss(seeds=1))
    assert [each.case.exchange for each in found] == ["none", "fp16"]
    assert found[0].stands_for == ()


def test_an_asynchronous_strategy_is_held_against_the_mean_of_all_replicas() -> None:
    (base, found) = trainings([case(strategy="parameter_server")], TargetLoss(seeds=1))
    assert (base.case.strategy, found.case.strategy) == ("multi_worker_mirrored", "parameter_server")
    (base, found) = trainings([case(strategy="parameter_server", devices=1)], TargetLoss(seeds=1))
    assert base.case.strategy == "one_device"


def test_a_batch_that_nobody_has_decided_is_not_trained() -> None:
    assert trainings([case(exchange="fp16", accumulation="auto")], TWO) == []
