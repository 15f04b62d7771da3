"""The self-check passes on a real exchange and fails on each kind of broken one."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_ranks
from toy_ranks import toy


@pytest.mark.tensorflow
@pytest.mark.system
@pytest.mark.parametrize(
    ("exchange", "passed", "says"),
    [
        ("none", True, "exactly their mean"),
        ("toy_exchanges:LocalOnly", False, "replica 0, dense"),
        ("toy_exchanges:Broadcast", False, "replica 0, dense"),
        ("toy_exchanges:DenseOnly", False, "replica 0, sparse"),
    ],
)
def test_mirrored(exchange: str, passed: bool, says: str, tmp_path: Path) -> None:
    ran = toy_ranks.run(toy(strategy="mirrored", devices=2, exchange=exchange), tmp_path, steps=3).assert_clean()
    check = ran.result().self_check
    assert check.passed is passed
    assert says in check.detail


@pytest.mark.tensorflow
@pytest.mark.system
def test_multi_worker_mirrored_finds_a_broadcast_on_every_rank(tmp_path: Path) -> None:
    case = toy(strategy="multi_worker_mirrored", devices=2, exchange="toy_exchanges:Broadcast")
    ran = toy_ranks.run(case, tmp_path, steps=3).assert_clean()
    assert [ran.result(rank).self_check.passed for rank in (0, 1)] == [False, False]


@pytest.mark.tensorflow
def test_judge_accepts_the_mean_only() -> None:
    from tfscale.suite.training.selfcheck import expected, judge

    right = expected(2)
    dense, sparse, large = right
    assert dense.tolist() == [1.5] * 5
    assert sparse.tolist() == [[0.5, 0.5], [1.0, 1.0], [1.5, 1.5]]
    assert large.tolist() == [[1.5] * 64] * 64
    assert judge([right, right], 0, 2, 0.0).passed
    assert not judge([right, [dense * 1.001, sparse, large]], 0, 2, 0.0).passed
    assert judge([right, [dense * 1.001, sparse, large]], 0, 2, 0.01).passed, "within a lossy exchange's bound"
    lost = [dense, np.array([[0.5, 0.5], [0.0, 0.0], [1.5, 1.5]]), large]
    assert "sparse" in judge([lost], 0, 2, 0.0).detail
    one_wrong = large.copy()
    one_wrong[63, 63] = 1.0
    assert (
        "large dense gradient: moved by [1.], the mean is [1.5]"
        in judge([[dense, sparse, one_wrong]], 0, 2, 0.0).detail
    )


@pytest.mark.tensorflow
def test_judge_of_an_exchange_that_moves_some() -> None:
    """The mean where something moved, the same places on both replicas, and something at all."""
    from tfscale.suite.training.selfcheck import expected, judge

    dense, sparse, large = expected(2)
    some = np.zeros_like(large)
    some[3, 5:9] = 1.5
    elsewhere = np.roll(some, 1)
    assert judge([[dense, sparse, some]] * 2, 0, 2, 0.0, "some").passed
    assert not judge([[dense, sparse, some]] * 2, 0, 2, 0.0).passed
    for wrong in ([some, elsewhere], [some * 0.5] * 2, [some * 0.0] * 2, [some, some * 0.0]):
        assert not judge([[dense, sparse, large_] for large_ in wrong], 0, 2, 0.0, "some").passed
    assert not judge([[dense * 0.0, sparse, some]], 0, 2, 0.0, "some").passed, "small ones move as a whole"


@pytest.mark.tensorflow
def test_arrivals_of_an_asynchronous_job() -> None:
    from tfscale.suite.strategies.scheduled import judge_arrivals

    assert judge_arrivals([2.0, 3.0], Counter({0: 2, 1: 3}), 2).passed
    assert not judge_arrivals([2.0, 2.0], Counter({0: 2, 1: 3}), 2).passed
    idle = judge_arrivals([5.0, 0.0], Counter({0: 5}), 2)
    assert not idle.passed
    assert "[1]" in idle.detail
