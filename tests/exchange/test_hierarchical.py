"""The two-level exchange: exact in every order of ranks, few bytes across, and compression on the slow level only."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))

pytestmark = [pytest.mark.tensorflow]
tf = pytest.importorskip("tensorflow")

import toy_ranks  # noqa: E402
from lockstep import Lockstep  # noqa: E402
from toy_ranks import toy  # noqa: E402

from tfscale.suite.exchange.base import create  # noqa: E402
from tfscale.suite.exchange.hierarchical import Hierarchical  # noqa: E402
from tfscale.suite.spec import Case  # noqa: E402

NAME = "tfscale.suite.exchange.hierarchical:Hierarchical"
SHAPES = [(300, 7), (5,), (40, 3, 11), (1,), (2000,)]


def shares(replica: int) -> list[Any]:
    """Whole numbers, so that sums are the same in every order; a sparse gradient among them, with a row twice."""
    random = np.random.default_rng(replica)
    dense = [random.integers(-50, 50, shape).astype(np.float32) for shape in SHAPES]
    values = random.integers(-50, 50, (3, 4)).astype(np.float32)
    sparse = tf.IndexedSlices(tf.constant(values), tf.constant([replica, 9, 9]), tf.constant([10, 4], tf.int64))
    return [*dense[:2], sparse, *dense[2:]]


def whole(gradient: Any) -> Any:
    return np.asarray(tf.convert_to_tensor(gradient))


ORDERS = {
    "racks in order": (0, 0, 1, 1),
    "interleaved": (0, 1, 0, 1),
    "crossed": (0, 1, 1, 0),
    "three of two": (2, 0, 1, 0, 2, 1),
    "two of three": (0, 1, 1, 0, 1, 0),
    "one replica a rack": (0, 1, 2),
}


@pytest.mark.parametrize("racks", ORDERS.values(), ids=ORDERS.keys())
@pytest.mark.parametrize("chunks", [0, 1, 3])
def test_the_mean_is_exact(racks: tuple[int, ...], chunks: int) -> None:
    replicas = len(racks)
    world = Lockstep(lambda: Hierarchical(chunks=chunks), replicas, racks)
    given = [shares(replica) for replica in range(replicas)]
    for means, riders in world.step(given, np.arange(4, dtype=np.float32)):
        for place, mean in enumerate(means):
            expected = sum(whole(each[place]).astype(np.float64) for each in given)
            assert mean.shape == expected.shape
            np.testing.assert_array_equal(whole(mean), expected)
        np.testing.assert_array_equal(riders, replicas * np.arange(4))


def test_a_shard_of_the_bytes_crosses() -> None:
    """2 racks of 2, 4096 floats, 4 riders: the reduce-scatter takes all, the sum across and the all-gather half."""
    world = Lockstep(lambda: Hierarchical(chunks=4), 4, (0, 1, 0, 1))
    world.step([[np.ones(4096, np.float32)]] * 4)
    assert world.payload_bytes == [4 * (4096 + 2048 + 2048) + 4 * 4] * 4
    assert set(world._meetings) == {(0, 1, 2, 3), (0, 2), (1, 3), (0, 1), (2, 3)}


def test_compression_on_the_slow_level_only() -> None:
    """In the rack 2048 + 1 is exact in float32; across, float16 rounds it to even. Small tensors go flat and exact."""
    world = Lockstep(lambda: Hierarchical(cross="fp16"), 4, (0, 1, 0, 1))
    assert not world.exchanges[0].exact and world.exchanges[0].tolerance == create("fp16").tolerance
    assert Hierarchical(cross="topk").moves == "some", "the self-check must know"
    gradients = [
        [np.full(2048, value, np.float32), np.full(8, value, np.float32)] for value in (2048.0, 0.0, 1.0, 4096.0)
    ]
    for (large, small), _ in world.step(gradients):
        np.testing.assert_array_equal(large, np.full(2048, 2048.0 + 4096.0))
        np.testing.assert_array_equal(small, np.full(8, 6145.0))


def test_state_of_the_crossing_exchange_is_its_own() -> None:
    from tfscale.suite.exchange.dense import FlatExchange
    from tfscale.suite.exchange.wire import Wire

    class Counting(FlatExchange):
        name = "counting"

        def __init__(self) -> None:
            super().__init__()
            self.skipped: list[float] = []

        def combine_flat(self, wire: Wire, flat: Any) -> Any:
            self.kept(wire, "steps", [1]).assign_add([1.0])
            return wire.sum([flat])[0]

        def settle(self, replica: int, skipped: Any) -> None:
            self.skipped.append(float(skipped))

    crossing = [Counting(), Counting()]
    given = iter(crossing)

    def make() -> Hierarchical:
        exchange = Hierarchical(chunks=2)
        exchange._cross = next(given)
        return exchange

    world = Lockstep(make, 2, (0, 1))
    world.step([[np.ones(4096, np.float32)]] * 2, skipped=1.0)
    assert [float(variable[0]) for variable in world.exchanges[0].state(0)] == [2.0], "once a chunk"
    assert [each.skipped for each in crossing] == [[1.0], [1.0]]


def test_what_is_refused() -> None:
    racks = {"racks": {"a": {}, "b": {}}, "hosts": ["a", "a", "b", "b", "b"]}

    def case(devices: int, exchange: str = NAME, **more: Any) -> Case:
        axes = {"strategy": "multi_worker_mirrored", "per_replica_batch": 8, "devices": devices, **more}
        return Case(workload="bert", preset="tiny", exchange=exchange, **axes)

    def reason(*args: Any, **more: Any) -> str | None:
        asked = case(*args, **more)
        return create(asked.exchange).refuses(asked)

    assert reason(4, topology=racks) is None
    assert reason(4, f"{NAME}(chunks=4, cross=bf16(pack_mib=1))", topology=racks) is None
    assert "needs a topology" in str(reason(4))
    assert "all are in one" in str(reason(2, topology=racks))
    assert "there are 2, 3" in str(reason(5, topology=racks))
    assert "hierarchical needs whole gradients" in str(reason(4, f"{NAME}(cross=hierarchical)", topology=racks))
    with pytest.raises(ValueError, match="chunks is -1"):
        create(f"{NAME}(chunks=-1)")
    with pytest.raises(ValueError, match="did you mean 'fp16'"):
        create(f"{NAME}(cross=fp61)")


@pytest.mark.system
def test_four_ranks_in_two_racks_train_as_with_none(tmp_path: Path) -> None:
    """Ranks of two racks in turn, on loopback; every step sums shards over groups of its own."""
    topology = {"name": "interleaved", "racks": {"a": {}, "b": {}}, "hosts": ["a", "b", "a", "b"]}
    axes = {"preset": "pool", "strategy": "multi_worker_mirrored", "devices": 4, "per_replica_batch": 4}
    exact = toy_ranks.run(toy(**axes, hosts=4), tmp_path / "none", steps=10).assert_clean()
    two_levels = toy(**axes, topology=topology, exchange=f"{NAME}(chunks=2)")
    ran = toy_ranks.run(two_levels, tmp_path / "two", steps=10).assert_clean()
    toy_ranks.assert_same_loss(exact, ran)
    assert all(ran.result(rank).self_check.passed for rank in range(4))
