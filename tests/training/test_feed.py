"""The global batch of a step is the same set of samples whatever the number of replicas."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
from toy_workload import SGD  # noqa: E402

from tfscale.suite.spec import Case  # noqa: E402
from tfscale.suite.training import feed  # noqa: E402

pytestmark = pytest.mark.tensorflow


def case(**axes: Any) -> Case:
    return Case(**{"workload": "toy_workload:SGD", "preset": "pool", **axes})


def global_batch(one: Case, step: int) -> Any:
    """The rows of all replicas of a case, in order, as a process that drives them all takes them."""
    source = feed.create(SGD, one, 0, None)
    source.place(["/device:CPU:0"] * one.devices)
    parts = [source.batch(local, tf.constant(step, tf.int64)) for local in range(one.devices)]
    assert all(part["number"].shape[0] == one.micro_batch * one.accumulation for part in parts)
    return np.concatenate([part["number"] for part in parts])


LAYOUTS = [
    {"devices": 1, "per_replica_batch": 8},
    {"devices": 2, "per_replica_batch": 4},
    {"devices": 4, "per_replica_batch": 2},
    {"devices": 2, "per_replica_batch": 2, "accumulation": 2},
    {"devices": 4, "global_batch": 8},
]


@pytest.mark.parametrize("axes", LAYOUTS)
def test_same_samples_on_every_layout(axes: dict[str, int]) -> None:
    for step in (0, 3, 8):
        expected = SGD.synthetic("pool", seed=0, index=step % 8, batch=8, options={})["number"]
        np.testing.assert_array_equal(global_batch(case(**axes), step), expected)


def test_ranks_of_one_device_take_the_rows_of_their_replica() -> None:
    one = case(devices=2, per_replica_batch=4)
    parts = []
    for replica in (0, 1):
        source = feed.create(SGD, one, replica, None)
        source.place(["/device:CPU:0"])
        parts.append(source.batch(0, tf.constant(5, tf.int64))["row"])
    expected = SGD.synthetic("pool", seed=0, index=5, batch=8, options={})["row"]
    np.testing.assert_array_equal(np.concatenate(parts), expected)


def test_dataset_cycles_through_the_pool() -> None:
    source = feed.create(SGD, case(per_replica_batch=4), 0, None)
    taken = [batch["number"].numpy() for batch in source.dataset(0).take(9)]
    np.testing.assert_array_equal(taken[0], taken[8])
    assert not np.array_equal(taken[0], taken[1])


def test_files_input_needs_a_folder() -> None:
    with pytest.raises(ValueError, match="folder"):
        feed.create(SGD, case(per_replica_batch=4, input="files"), 0, None)
