"""The cost of coding: what travels is counted, and the time before the wire is told from the time behind it."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tfscale.suite.exchange import codec
from tfscale.suite.exchange.base import Exchange
from tfscale.suite.exchange.dense import FlatExchange
from tfscale.suite.exchange.shapes import GradientShape, assembled, made_up
from tfscale.suite.exchange.stillwire import Handed, StillSession, StillWire
from tfscale.suite.exchange.wire import Wire

pytestmark = [pytest.mark.tensorflow]
tf = pytest.importorskip("tensorflow")

SHAPES = [GradientShape((300, 40)), GradientShape((7,)), GradientShape((50, 8), rows=6, index="int64")]
ROWS = 6 * 8 * 4 + 6 * 8
RIDERS = 16
SESSION = StillSession(replicas=4)


class Slow(FlatExchange):
    """Spends 30 ms before the wire and 60 behind it, the latter on what only an error feedback needs too."""

    name = "slow"
    exact = False

    def combine_flat(self, wire: Wire, flat: Any) -> Any:
        residual = self.kept(wire, "residual", flat.shape)
        sent = _sleeps(0.03, flat + residual)
        (summed,) = wire.sum([tf.cast(sent, tf.float16)])
        decoded = _sleeps(0.06, tf.cast(summed, tf.float32))
        residual.assign(flat - decoded)
        return decoded


class NeedsMore(Exchange):
    name = "needs-more"

    def reduce(self, wire: Wire, gradients: Sequence[Any], riders: Any) -> tuple[list[Any], Any]:
        raise RuntimeError("where is the network?")


def _sleeps(seconds: float, tensor: Any) -> Any:
    def act(value: Any) -> Any:
        time.sleep(seconds)
        return value

    slept = tf.numpy_function(act, [tensor], tf.float32)
    return tf.ensure_shape(slept, tensor.shape)


def test_a_still_wire_gives_back_what_it_was_handed_as_often_as_there_are_replicas() -> None:
    handed = Handed()
    wire = StillWire(4, 1, handed)
    dense, _, sparse = assembled(SHAPES, made_up(SHAPES))
    summed = wire.sum([dense, sparse])
    np.testing.assert_array_equal(summed[0], dense)
    assert summed[1].values.shape == (24, 8) and summed[1].indices.shape == (24,)
    assert wire.gather(dense).shape == (4, 300, 40)
    assert wire.all_to_all(tf.zeros([4, 3])).shape == (4, 3)
    group = wire.among([[0, 2], [1, 3]])
    assert (group.replicas, group.replica) == (2, 0)
    group.sum([tf.zeros([5])])
    assert handed.bytes == {"sum": 48000 + 20, "gather": ROWS + 48000, "all_to_all": 48}
    assert wire.payload_bytes == 48000 + ROWS + 48000 + 48
    with pytest.raises(ValueError, match="replica 1 is in none"):
        wire.among([[0, 2]])


def test_bytes_of_none_and_of_half_are_those_of_their_numbers() -> None:
    dense = 300 * 40 + 7
    assert codec.payload("none", SHAPES, SESSION) == {"sum": 4 * dense + RIDERS, "gather": ROWS}
    found = codec.cost("fp16", SHAPES, [], SESSION, "/device:CPU:0")
    assert found.none_bytes == 4 * dense + RIDERS + ROWS
    assert found.handed == {"sum": 2 * dense + RIDERS, "gather": ROWS}
    assert not found.exact
    assert found.encode_s is not None and found.encode_s > 0


def test_decoding_is_told_from_encoding_though_the_state_depends_on_it() -> None:
    found = codec.cost(f"{__name__}:Slow", SHAPES, [], SESSION, "/device:CPU:0")
    assert found.reason is None
    assert found.encode_s == pytest.approx(0.03, abs=0.015)
    assert found.decode_s == pytest.approx(0.06, abs=0.015)
    assert found.handed == {"sum": 2 * 300 * 40 + 4 * 7 + RIDERS, "gather": ROWS}


def test_an_exchange_that_cannot_run_so_has_no_times_and_says_why() -> None:
    found = codec.cost(f"{__name__}:NeedsMore", SHAPES, [], SESSION, "/device:CPU:0")
    assert (found.encode_s, found.decode_s) == (None, None)
    assert "RuntimeError: where is the network?" in (found.reason or "")


def test_what_is_sent_in_some_steps_only_counts_by_its_share_and_has_no_one_time() -> None:
    """`deferred`: the 7 elements count as 7 bytes a step. `dgc`: the stages of the warm-up do not count, only the 1 % after."""
    found = codec.cost("deferred", [GradientShape((300, 400)), GradientShape((7,))], [], SESSION, "/device:CPU:0")
    assert found.handed == {"sum": 4 * 300 * 400 + RIDERS + 7}
    assert "some steps only" in (found.reason or "")
    assert (found.encode_s, found.decode_s) == (None, None)
    warm = codec.cost("dgc(ratio=0.01, warm_up=8)", SHAPES[:2], [], SESSION, "/device:CPU:0")
    assert warm.handed == {"sum": 4 * 7 + RIDERS, "gather": 8 * 120}
    assert "some steps only" in (warm.reason or "")


@pytest.mark.parametrize("name", ["powersgd(rank=2)", "topk", "dgc(ratio=0.01)", "pack", "priority"])
def test_coding_can_be_timed(name: str) -> None:
    found = codec.cost(name, SHAPES[:2], [], SESSION, "/device:CPU:0")
    assert found.encode_s is not None, found.reason
