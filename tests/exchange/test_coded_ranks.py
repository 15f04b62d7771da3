"""Codes in real ranks: training goes on, the self-check passes, and exactly the bytes of the formulas are handed in."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_ranks
from toy_ranks import toy

from tfscale.suite.exchange import coded, randomk

pytestmark = [pytest.mark.tensorflow, pytest.mark.system]

AXES = {"preset": "wide", "strategy": "multi_worker_mirrored", "devices": 2}
LARGE = 68 * 2048 + 2048 + 2048
"""Elements of the toy's large dense gradients: two kernels and a bias."""
CASES = {
    "int8": ("tfscale.suite.exchange.int8:Int8", "multi_worker_mirrored", coded.payload_bytes(LARGE, 512, 129, 2)),
    "onebit": (
        "tfscale.suite.exchange.onebit:OneBit",
        "multi_worker_mirrored",
        coded.payload_bytes(LARGE, 1024, 33, 2),
    ),
    "onebit, mirrored": ("tfscale.suite.exchange.onebit:OneBit", "mirrored", coded.payload_bytes(LARGE, 1024, 33, 2)),
    "randomk": ("tfscale.suite.exchange.randomk:RandomK", "multi_worker_mirrored", randomk.payload_bytes(LARGE, 100)),
}


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> toy_ranks.Ran:
    return toy_ranks.run(toy(**AXES), tmp_path_factory.mktemp("none")).assert_clean()


@pytest.mark.parametrize(("exchange", "strategy", "payload"), CASES.values(), ids=CASES.keys())
def test_two_replicas(exchange: str, strategy: str, payload: int, exact: toy_ranks.Ran, tmp_path: Path) -> None:
    ran = toy_ranks.run(toy(**{**AXES, "strategy": strategy}, exchange=exchange), tmp_path).assert_clean()
    result = ran.result()
    assert result.self_check.passed, result.self_check.detail
    assert result.counts["gradient_bytes"] == exact.result().counts["gradient_bytes"] - 4 * LARGE + payload
    assert result.effective["xla"] == "none", "compiled coders are no compiled model"
    assert result.counts["retraces"] == 0
    toy_ranks.assert_same_loss(exact, ran, 0.5)
