"""16-bit exchanges: what they round, what they leave alone, and that training with them follows the exact one."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_ranks
from toy_ranks import toy

from tfscale.suite.exchange.base import create

pytestmark = [pytest.mark.tensorflow]
tf = pytest.importorskip("tensorflow")


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("fp16", 1.0 + 2.0**-11, 1.0),  # half way between two float16: to even
        ("fp16", 1.0 + 2.0**-10, 1.0 + 2.0**-10),
        ("fp16", 1e9, 65504.0),
        ("fp16", -1e9, -65504.0),
        ("fp16", 2.0**-26, 0.0),
        ("bf16", 1.0 + 2.0**-8, 1.0),
        ("bf16", 2.0**-100, 2.0**-100),
        ("bf16", 2.0**100, 2.0**100),
    ],
)
def test_what_travels(name: str, value: float, wanted: float) -> None:
    sent = create(name)._encode(tf.constant([value], tf.float32))  # type: ignore[attr-defined]
    assert sent.dtype.size == 2
    assert float(tf.cast(sent, tf.float32)[0]) == wanted


@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_a_nan_stays_one(name: str) -> None:
    sent = create(name)._encode(tf.constant([np.nan], tf.float32))  # type: ignore[attr-defined]
    assert np.isnan(float(tf.cast(sent, tf.float32)[0]))


@pytest.mark.system
@pytest.mark.parametrize("strategy", ["mirrored", "multi_worker_mirrored"])
@pytest.mark.parametrize(("name", "tolerance"), [("fp16", 2e-3), ("bf16", 2e-2)])
def test_training_follows_the_exact_exchange(strategy: str, name: str, tolerance: float, tmp_path: Path) -> None:
    """The same steps on the same data; half the bytes of dense gradients, sparse rows and riders as they are."""
    axes = {"preset": "pool", "strategy": strategy, "devices": 2}
    exact = toy_ranks.run(toy(**axes), tmp_path / "exact").assert_clean()
    half = toy_ranks.run(toy(**axes, exchange=name), tmp_path / name).assert_clean()
    toy_ranks.assert_same_loss(exact, half, tolerance)
    assert half.result().self_check.passed
    whole, halved = (ran.result().counts["gradient_bytes"] for ran in (exact, half))
    assert whole / 2 < halved < whole


def test_a_size_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="pack_mib"):
        create("fp16(pack_mib=-1)")
    with pytest.raises(ValueError, match="pack_mib"):
        create("none(pack_mib=true)")
