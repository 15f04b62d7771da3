"""Collectives over groups of replicas in real ranks: what they give, over many steps, traces and replicas of a process."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))

pytestmark = [pytest.mark.tensorflow]
tf = pytest.importorskip("tensorflow")

import toy_ranks  # noqa: E402
from toy_ranks import toy  # noqa: E402

from tfscale.suite.exchange.groupwire import INSTANCES_FROM, KEYS_FROM, Groups, group_key, packs  # noqa: E402


@pytest.mark.system
@pytest.mark.parametrize(
    ("strategy", "replicas"),
    [("multi_worker_mirrored", 2), ("multi_worker_mirrored", 4), ("mirrored", 4), ("mirrored", 12)],
)
def test_every_collective_gives_what_it_must(strategy: str, replicas: int, tmp_path: Path) -> None:
    """60 steps, ten a call; the self-check has traced and run all of them once before. Twelve: ranks of two digits."""
    axes = {"strategy": strategy, "devices": replicas, "exchange": "toy_exchanges:EveryCollective"}
    case = toy(**axes, per_replica_batch=2, steps_per_call=10)
    ran = toy_ranks.run(case, tmp_path, steps=60, pinned=False).assert_clean()
    assert ran.result().self_check.passed
    assert ran.result().counts["retraces"] == 0


def test_keys_follow_from_the_members_and_instances_are_counted() -> None:
    groups = Groups(["/device:CPU:0", "/device:CPU:1"])
    keys = {members: groups.key(members) for members in [(0, 1), (0, 2), (1, 3), (0, 1, 2, 3), (12,), (1, 2)]}
    assert len(set(keys.values())) == len(keys)
    assert all(KEYS_FROM <= key < 2**31 for key in keys.values())
    assert keys == {members: Groups(["/device:CPU:3"]).key(members) for members in keys}, "as another process has it"
    assert group_key((0, 1), "GPU") != group_key((0, 1), "CPU"), "TensorFlow refuses a group of both"
    key = keys[0, 1]
    assert [groups.instance(key, 0) for _ in range(3)] == [INSTANCES_FROM + i for i in range(3)]
    assert groups.instance(key, 1) == INSTANCES_FROM, "the other replica counts for itself"
    assert groups.instance(keys[0, 2], 0) == INSTANCES_FROM


def test_packs_are_filled_from_the_last_tensor_on() -> None:
    def tensor(kib: int, dtype: Any = tf.float32) -> Any:
        return SimpleNamespace(shape=tf.TensorShape([kib * 1024 // dtype.size]), dtype=dtype)

    tensors = [tensor(512), tensor(512), tensor(600), tensor(8), tensor(8, tf.float16), tensor(2048)]
    assert packs(tensors, 1.0) == [[5], [4], [3, 2], [1, 0]]
    assert packs(tensors, 0) == [[5], [4], [3, 2, 1, 0]]
    assert packs([], 1.0) == []
