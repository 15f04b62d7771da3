"""The same samples and weights give the same losses under every strategy, with sparse gradients and duplicates."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_ranks
from toy_ranks import assert_same_loss, toy

pytestmark = [pytest.mark.tensorflow, pytest.mark.system]


@pytest.fixture(scope="module")
def one_device(tmp_path_factory: pytest.TempPathFactory) -> toy_ranks.Ran:
    """The reference: one device takes the whole global batch of 16."""
    folder = tmp_path_factory.mktemp("one_device")
    return toy_ranks.run(toy(per_replica_batch=16, preset="pool"), folder).assert_clean()


@pytest.fixture(scope="module")
def one_device_adamw(tmp_path_factory: pytest.TempPathFactory) -> toy_ranks.Ran:
    folder = tmp_path_factory.mktemp("one_device_adamw")
    return toy_ranks.run(toy(per_replica_batch=16, workload="toy_workload:ADAMW"), folder).assert_clean()


SAME = {
    "mirrored": {"strategy": "mirrored", "devices": 2},
    "mirrored, compiled": {"strategy": "mirrored", "devices": 2, "xla": "cluster"},
    "mirrored, 2 steps a call": {"strategy": "mirrored", "devices": 2, "steps_per_call": 2},
    "multi_worker_mirrored": {"strategy": "multi_worker_mirrored", "devices": 2, "collective": "ring"},
    "central_storage": {"strategy": "central_storage", "devices": 2},
    "accumulation": {"accumulation": 2},
    "accumulation, compiled": {"accumulation": 2, "xla": "cluster"},
    "parameter_server, one worker": {"strategy": "parameter_server", "per_replica_batch": 16},
}


@pytest.mark.parametrize("axes", SAME.values(), ids=SAME.keys())
def test_loss_equals_one_device(axes: dict[str, object], one_device: toy_ranks.Ran, tmp_path: Path) -> None:
    case = toy(preset="pool", **axes)
    steps = 20 - 2 * (case.steps_per_call - 1)  # two calls come before the counted ones
    ran = toy_ranks.run(case, tmp_path, steps=steps).assert_clean()
    assert_same_loss(one_device, ran)
    expected = {"xla": axes.get("xla", "none"), "math": "float32"}
    assert {name: ran.result().effective[name] for name in expected} == expected
    assert ran.result().self_check.passed is not False
    assert ran.result().counts["retraces"] == 0


@pytest.mark.parametrize("strategy", ["mirrored", "multi_worker_mirrored"])
def test_clipped_adamw_equals_one_device(strategy: str, one_device_adamw: toy_ranks.Ran, tmp_path: Path) -> None:
    """Clipping by the global norm comes after averaging: before, two replicas would clip other gradients."""
    case = toy(workload="toy_workload:ADAMW", strategy=strategy, devices=2)
    assert_same_loss(one_device_adamw, toy_ranks.run(case, tmp_path).assert_clean())


def test_samples_are_counted_from_the_batches(one_device: toy_ranks.Ran) -> None:
    counts = one_device.result().counts
    assert counts["samples"] == 16 * counts["steps"]
    assert counts["parameters"] == 129
    assert counts["skipped_steps"] == 0
