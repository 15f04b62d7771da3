"""The variables of each transport, by NCCL's documentation; a case's own `env` has the last word."""

from pathlib import Path

from tfscale.suite import registry
from tfscale.suite.planner import Folders, Place, plan_launch
from tfscale.suite.spec import Case, Measure
from tfscale.suite.transport import environment


def test_tcp_never_touches_infiniband() -> None:
    assert environment("tcp") == {"NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1"}


def test_rdma_and_gdr_differ_in_whether_gpu_memory_takes_part() -> None:
    assert environment("rdma")["NCCL_NET_GDR_LEVEL"] == "LOC"
    assert environment("gdr")["NCCL_NET_GDR_LEVEL"] == "SYS"
    assert environment("auto") == {}


def test_a_plan_carries_them_and_env_overrides(tmp_path: Path) -> None:
    axes = {"workload": "bert", "preset": "tiny", "per_replica_batch": 8, "transport": "tcp"}
    case = Case.model_validate({**axes, "env": {"NCCL_IB_DISABLE": "0", "NCCL_ALGO": "Ring"}})
    strategy = registry.load("strategies", case.strategy)()
    place = Place(host_cores=[0], cores_per_device=1)
    options = {"measure": Measure(), "profile": None, "pass_": "timed"}
    (plan,) = plan_launch(case, 0, strategy, place, Folders(tmp_path), **options)
    told = {name: value for name, value in plan.environment.items() if name.startswith("NCCL_")}
    assert told == {"NCCL_NET": "Socket", "NCCL_IB_DISABLE": "0", "NCCL_ALGO": "Ring"}
