"""The cost of coding in real ranks: what a rank says was handed over is what its step counted."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_ranks
from toy_ranks import toy

pytestmark = [pytest.mark.tensorflow, pytest.mark.system]


def test_what_was_handed_over_is_what_the_step_counted(tmp_path: Path) -> None:
    case = toy(devices=2, strategy="multi_worker_mirrored", exchange="int8", preset="wide")
    ran = toy_ranks.run(case, tmp_path, steps=5).assert_clean()
    for rank in (0, 1):
        result = ran.result(rank)
        told = result.exchange
        assert told["bytes"] == result.counts["gradient_bytes"] == sum(told["handed"].values())
        assert told["none_bytes"] > 2 * told["bytes"]
        assert told["exact"] is False
        assert told["encode_s"] > 0


def test_replicas_that_exchange_nothing_have_nothing_to_tell(tmp_path: Path) -> None:
    assert toy_ranks.run(toy(), tmp_path, steps=3).assert_clean().result().exchange == {}
