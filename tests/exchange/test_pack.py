"""Packing: what travels together and in which order, and that the means are those of `none`."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tfscale.suite.exchange.base import create
from tfscale.suite.exchange.priority import large_first
from tfscale.suite.exchange.wire import in_reverse

pytestmark = pytest.mark.tensorflow
tf = pytest.importorskip("tensorflow")
from lockstep import Lockstep, LockstepWire  # noqa: E402


@pytest.mark.parametrize(
    ("sizes", "limit", "wanted"),
    [
        ([1, 1, 1, 1, 1], 8, [[4, 3], [2, 1], [0]]),
        ([2, 1, 1], 8, [[2, 1], [0]]),
        ([1, 100, 1], 8, [[2], [1], [0]]),
        ([3, 1], 16, [[1, 0]]),
        ([3, 2], 0, [[1], [0]]),
        ([], 8, []),
    ],
)
def test_neighbours_in_reverse(sizes: list[int], limit: float, wanted: list[list[int]]) -> None:
    assert in_reverse([4 * size for size in sizes], limit) == wanted


def test_large_ones_first() -> None:
    assert large_first([9, 1, 5, 2, 7, 1], 5) == [[4], [2], [0], [5, 3, 1]]
    assert large_first([1, 2], 5) == [[1, 0]]
    assert large_first([6, 7], 5) == [[1], [0]]
    assert large_first([], 5) == []


def gradients(replicas: int) -> list[list[Any]]:
    """Dense ones of 4, 1024, 8, 3 x 500 elements, and two sparse ones of one width, [replica][variable]."""
    rng = np.random.default_rng(0)

    def one() -> list[Any]:
        dense = [rng.normal(size=shape).astype(np.float32) for shape in ((4,), (1024,), (8,), (3, 500))]
        sparse = [
            tf.IndexedSlices(
                tf.constant(rng.normal(size=(2, 5)), tf.float32), tf.constant([1, row]), tf.constant([9, 5])
            )
            for row in (1, 7)
        ]
        return [dense[0], sparse[0], *dense[1:], sparse[1]]

    return [one() for _ in range(replicas)]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """Shapes of each sum of replica 0, in order; sparse ones as the shape of their values."""
    seen: list[list[Any]] = []
    plain = LockstepWire._sum

    def spied(self: LockstepWire, tensors: list[Any], pack_mib: float) -> list[Any]:
        if self.replica == 0:
            seen.append([tuple(getattr(tensor, "values", tensor).shape) for tensor in tensors])
        return plain(self, tensors, pack_mib)

    monkeypatch.setattr(LockstepWire, "_sum", spied)
    return seen


RIDERS = (4,)
KIB_4 = 2.0**-8


@pytest.mark.parametrize(
    ("exchange", "wanted"),
    [
        (f"pack(mib={KIB_4})", [[(3, 500)], [(8,)], [(1024,)], [(4,), RIDERS], [(4, 5)]]),
        ("pack", [[(3, 500), (8,), (1024,), (4,), RIDERS], [(4, 5)]]),
        ("priority(large=1024)", [[(3, 500)], [(1024,)], [(8,), (4,), RIDERS], [(4, 5)]]),
        ("priority(large=1)", [[(3, 500)], [(8,)], [(1024,)], [(4,), RIDERS], [(4, 5)]]),
    ],
)
def test_what_is_sent_when_and_what_comes(exchange: str, wanted: list[Any], sent: list[Any]) -> None:
    handed = gradients(3)
    world = Lockstep(exchange, 3)
    results = world.step(handed, riders=np.arange(4, dtype=np.float32))
    assert sent == wanted
    plain = Lockstep("none", 3)
    expected = plain.step(handed, riders=np.arange(4, dtype=np.float32))
    assert world.payload_bytes == plain.payload_bytes
    for (means, riders), (right, right_riders) in zip(results, expected, strict=True):
        np.testing.assert_array_equal(riders, right_riders)
        for mean, same in zip(means, right, strict=True):
            np.testing.assert_array_equal(tf.convert_to_tensor(mean), tf.convert_to_tensor(same))


@pytest.mark.parametrize("exchange", ["pack", "priority"])
def test_riders_travel_where_nothing_is_dense(exchange: str, sent: list[Any]) -> None:
    handed = [[own[1], own[5]] for own in gradients(2)]
    results = Lockstep(exchange, 2).step(handed, riders=np.ones(4, np.float32))
    assert sent == [[RIDERS], [(4, 5)]]
    assert np.asarray(results[1][1]).tolist() == [2.0] * 4


@pytest.mark.parametrize(
    "text", ["pack(mib=-1)", "pack(mib=true)", "pack(mib=inf)", "priority(large=0)", "priority(large=1.5)"]
)
def test_arguments(text: str) -> None:
    with pytest.raises(ValueError, match=r"(mib|large) is"):
        create(text)
