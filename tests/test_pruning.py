"""Pruning: each rule once, on machines described by hand."""

import re

import pytest

from tfscale.suite.pruning import device_hours, prune, refusal
from tfscale.suite.spec import Case, Measure
from tfscale.suite.strategies.base import Machine

CPU = Machine(cores=2, gpus=0)
GPUS = Machine(cores=64, gpus=8)


def case(**axes: object) -> Case:
    return Case.model_validate({"workload": "bert", "preset": "tiny", "per_replica_batch": 8, **axes})


@pytest.mark.parametrize(
    ("axes", "machine", "words"),
    [
        ({"precision": "tf32"}, CPU, "tf32 needs an NVIDIA GPU"),
        ({"strategy": "mirrored", "devices": 4}, CPU, "4 CPU devices .* there are 2"),
        ({"strategy": "mirrored", "devices": 16}, GPUS, "16 devices a host, and there are 8 GPUs"),
        ({"strategy": "multi_worker_mirrored", "devices": 2, "collective": "nccl"}, CPU, "nccl needs GPUs"),
        ({"strategy": "multi_worker_mirrored", "devices": 2, "transport": "rdma"}, CPU, "rdma needs GPUs"),
        (
            {"strategy": "multi_worker_mirrored", "devices": 2, "transport": "rdma", "collective": "ring"},
            GPUS,
            "ring over rdma: TensorFlow has no verbs transport",
        ),
        ({"strategy": "multi_worker_mirrored", "devices": 2, "hosts": 2}, CPU, "the local launcher has one"),
        ({"strategy": "mirrored", "devices": 1, "exchange": "fp16"}, CPU, "one replica: nothing is exchanged"),
        ({"strategy": "independent", "devices": 2, "exchange": "fp16"}, CPU, "no gradient exchange"),
        ({"strategy": "tpu"}, CPU, "TPU"),
    ],
)
def test_refused_with_its_reason(axes: dict, machine: Machine, words: str) -> None:
    reason = refusal(case(**axes), machine, "local")
    assert reason is not None
    assert re.search(words, reason), reason


@pytest.mark.parametrize(
    "axes",
    [
        {},
        {"strategy": "mirrored", "devices": 2},
        {"strategy": "multi_worker_mirrored", "devices": 2, "xla": "cluster"},
        {"strategy": "parameter_server", "devices": 2},
        {"strategy": "independent", "devices": 2},
        {"precision": "mixed_bfloat16", "xla": "cluster"},
    ],
)
def test_what_runs_is_kept(axes: dict) -> None:
    assert refusal(case(**axes), CPU, "local") is None


def test_prune_keeps_the_order_and_every_case_once() -> None:
    cases = [case(devices=n, strategy="mirrored") for n in (1, 4, 2, 8)]
    kept, pruned = prune(cases, CPU, "local")
    assert [c.devices for c in kept] == [1, 2]
    assert [p.case["devices"] for p in pruned] == [4, 8]


def test_a_slice_elsewhere_is_left_to_its_own_runtime_and_cores_of_this_host_do_not_matter() -> None:
    slice_ = Machine(cores=1, gpus=0, tpus=None, kind="tpu")
    assert refusal(case(strategy="tpu", devices=16, xla="cluster"), slice_, "local") is None
    assert "there is no TPU" in (refusal(case(strategy="tpu"), Machine(cores=1, gpus=0, kind="tpu"), "local") or "")


def test_device_hours_are_devices_times_trials_times_budget_and_launch() -> None:
    cases = [case(), case(strategy="mirrored", devices=2)]
    # 3 devices x 4 trials x (50 + 10) s = 720 s
    assert device_hours(cases, Measure(trials=2, max_trials=4, budget_s=50)) == pytest.approx(0.2)
