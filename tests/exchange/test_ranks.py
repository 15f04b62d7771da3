"""Exchanges in real ranks: training goes on, the self-check passes, and the bytes are those of the formulas."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_ranks
from toy_ranks import toy

from tfscale.suite.exchange import coded, randomk

pytestmark = [pytest.mark.tensorflow, pytest.mark.system]

AXES = {"workload": "toy_workload:GENTLE", "preset": "wide", "devices": 2}
MATRIX = (68, 2048)
"""The toy's first kernel. The second has 2048 x 1."""
LARGE = 68 * 2048 + 2 * 2048
"""Elements of its large dense gradients: two kernels and a bias of 2048."""
SMALL = 2 * 2048 + 1
"""Elements of its dense gradients of fewer than 65536."""
WEIGHTS = 12 * 64 + 68 * 2048 + SMALL
MULTI, MIRRORED = "multi_worker_mirrored", "mirrored"
CASES = {
    "powersgd": (MULTI, -4 * MATRIX[0] * MATRIX[1] + 4 * 4 * sum(MATRIX), 0.02),
    "powersgd(rank=2)": (MIRRORED, -4 * MATRIX[0] * MATRIX[1] + 4 * 2 * sum(MATRIX), 0.02),
    "topk": (MULTI, -4 * LARGE + 8 * 1434, 0.25),
    "dgc(ratio=0.02, momentum=0.5, clip=100, warm_up=6)": (MULTI, -4 * LARGE + 8 * 2867, 0.2),
    "pack(mib=0.25)": (MULTI, 0, 1e-5),
    "priority": (MIRRORED, 0, 1e-5),
    "deferred": (MULTI, -3 * SMALL, 0.02),
    "deferred(every=2)": (MIRRORED, -2 * SMALL, 0.02),
    "local_sgd(every=4)": (MULTI, None, 0.3),
    "local_sgd": (MIRRORED, None, 0.3),
    "int8": (MULTI, -4 * LARGE + coded.payload_bytes(LARGE, 512, 129, 2), 1e-3),
    "onebit": (MULTI, -4 * LARGE + coded.payload_bytes(LARGE, 1024, 33, 2), 0.1),
    "onebit(bucket=512)": (MIRRORED, -4 * LARGE + coded.payload_bytes(LARGE, 512, 17, 2), 0.1),
    "randomk(ratio=0.1)": (MULTI, -4 * LARGE + randomk.payload_bytes(LARGE, 10), 0.25),
}


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> toy_ranks.Ran:
    return toy_ranks.run(toy(**AXES, strategy=MULTI), tmp_path_factory.mktemp("none")).assert_clean()


@pytest.mark.parametrize("exchange", CASES)
def test_two_replicas(exchange: str, exact: toy_ranks.Ran, tmp_path: Path) -> None:
    strategy, saved, tolerance = CASES[exchange]
    ran = toy_ranks.run(toy(**AXES, strategy=strategy, exchange=exchange), tmp_path).assert_clean()
    result = ran.result()
    assert result.self_check.passed, result.self_check.detail
    every = 4 if "every=4" in exchange else 8
    whole = exact.result().counts["gradient_bytes"]
    wanted = whole + saved if saved is not None else 16 + round(4 * WEIGHTS / every)
    assert result.counts["gradient_bytes"] == wanted
    assert result.counts["retraces"] == 0
    assert result.effective["xla"] == "none", "compiled coders are no compiled model"
    assert exact.last_loss()[1] < 2.0, "from 3.5 in step 1"
    toy_ranks.assert_same_loss(exact, ran, tolerance)


def test_three_ranks_sum_a_part_each(exact: toy_ranks.Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy_ranks, "CORES", toy_ranks.CORES * 2)  # two cores may carry three ranks
    ran = toy_ranks.run(toy(**{**AXES, "devices": 3}, strategy=MULTI, exchange="int8"), tmp_path).assert_clean()
    assert all(ran.result(rank).self_check.passed for rank in range(3))
    parts = coded.payload_bytes(LARGE, 512, 129, 3)
    assert ran.result().counts["gradient_bytes"] == exact.result().counts["gradient_bytes"] - 4 * LARGE + parts
    assert ran.last_loss()[1] < 3.0, "from 3.5 in step 1"
