"""The processes of a case, and what each strategy refuses, without TensorFlow."""

import subprocess
import sys
from typing import Any

import pytest

from tfscale.suite import registry
from tfscale.suite.spec import Case
from tfscale.suite.strategies.base import Machine, Strategy

CPU = Machine(cores=8, gpus=0)
GPU = Machine(cores=8, gpus=4)


def case(strategy: str, **axes: Any) -> Case:
    return Case(**{"workload": "bert", "preset": "tiny", "strategy": strategy, "per_replica_batch": 8, **axes})


def strategy(name: str) -> Strategy:
    found: Strategy = registry.load("strategies", name)()
    return found


def layout(one: Case) -> list[tuple[str, int, int, int, int]]:
    return [(r.role, r.index, r.host, r.devices, r.first_replica) for r in strategy(one.strategy).layout(one)]


def refusal(one: Case, machine: Machine = CPU) -> str | None:
    return strategy(one.strategy).refuses(one, machine)


def test_one_process_for_all_devices() -> None:
    assert layout(case("one_device")) == [("worker", 0, 0, 1, 0)]
    assert layout(case("mirrored", devices=4)) == [("worker", 0, 0, 4, 0)]
    assert layout(case("central_storage", devices=2)) == [("worker", 0, 0, 2, 0)]


def test_process_per_device_or_per_host() -> None:
    per_device = layout(case("multi_worker_mirrored", devices=4, hosts=2))
    assert per_device == [
        ("worker", 0, 0, 1, 0),
        ("worker", 1, 0, 1, 1),
        ("worker", 2, 1, 1, 2),
        ("worker", 3, 1, 1, 3),
    ]
    per_host = layout(case("multi_worker_mirrored", devices=4, hosts=2, ranks="host"))
    assert per_host == [("worker", 0, 0, 2, 0), ("worker", 1, 1, 2, 2)]


def test_independent_has_a_process_a_replica_and_each_trains_alone() -> None:
    one = case("independent", devices=3)
    assert [rank[4] for rank in layout(one)] == [0, 1, 2]
    assert strategy("independent").replicas(one) == 1
    assert strategy("mirrored").replicas(one) == 3


def test_coordinator_is_rank_0_and_drives_no_device() -> None:
    ranks = layout(case("parameter_server", devices=2))
    assert [rank[0] for rank in ranks] == ["coordinator", "worker", "worker", "ps", "ps"]
    assert [rank[3] for rank in ranks] == [0, 1, 1, 0, 0]
    assert sum(rank[0] == "ps" for rank in layout(case("parameter_server"))) == 1
    assert sum(rank[0] == "ps" for rank in layout(case("parameter_server", devices=16))) == 4


@pytest.mark.parametrize(
    ("one", "machine", "says"),
    [
        (case("one_device", devices=2), CPU, "1 device, not 2"),
        (case("mirrored", devices=2, hosts=2), CPU, "one host"),
        (case("multi_worker_mirrored", devices=3, hosts=2), CPU, "shared equally"),
        (case("multi_worker_mirrored", devices=4, hosts=2, ranks="host"), CPU, "ranks: device"),
        (case("multi_worker_mirrored", devices=2, collective="nccl"), CPU, "nccl needs GPUs"),
        (case("parameter_server", devices=4, hosts=2, ranks="host"), CPU, "one device"),
        (case("parameter_server", xla="cluster"), CPU, "another process"),
        (case("parameter_server", exchange="powersgd(rank=4)"), CPU, "nothing is averaged"),
        (case("independent", devices=2, exchange="fp16"), CPU, "exchange nothing"),
        (case("central_storage", devices=2, xla="cluster"), CPU, "another device"),
        (case("tpu"), CPU, "no TPU"),
        (case("tpu", devices=8), Machine(cores=8, gpus=0, tpus=4), "there are 4"),
    ],
)
def test_refusals_say_why(one: Case, machine: Machine, says: str) -> None:
    reason = refusal(one, machine)
    assert reason is not None
    assert says in reason


@pytest.mark.parametrize(
    ("one", "machine"),
    [
        (case("one_device"), CPU),
        (case("mirrored", devices=2), CPU),
        (case("multi_worker_mirrored", devices=2, xla="cluster"), CPU),
        (case("multi_worker_mirrored", devices=4, ranks="host"), GPU),
        (case("multi_worker_mirrored", devices=2, ranks="host", hosts=2), CPU),
        (case("parameter_server", devices=2), CPU),
        (case("central_storage", devices=2), CPU),
        (case("independent", devices=2), CPU),
        (case("tpu", devices=4, xla="cluster"), Machine(cores=8, gpus=0, tpus=4)),
        (case("tpu", devices=16, xla="cluster"), Machine(cores=1, gpus=0, tpus=None, kind="tpu")),
    ],
)
def test_what_runs_is_not_refused(one: Case, machine: Machine) -> None:
    assert refusal(one, machine) is None


def test_planning_imports_no_tensorflow() -> None:
    code = (
        "import sys; from tfscale.suite import registry, worker\n"
        "for name in registry.names('strategies'): registry.load('strategies', name)\n"
        "registry.load('exchanges', 'none')\n"
        "sys.exit(any(m in sys.modules for m in ('tensorflow', 'keras', 'pandas', 'scipy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
