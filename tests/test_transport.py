"""The variables of each transport, by NCCL's documentation; a case's own `env` has the last word."""

from pathlib import Path

from tfscale.suite import registry
from tfscale.suite.planner import Folders, Place, plan_launch
from tfscale.suite.spec import Case, Measure
from tfscale.suite.transport import environment, logging


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


def _told(tmp_path: Path, accelerator: str, **axes: object) -> dict[str, str]:
    case = Case.model_validate({"workload": "bert", "preset": "tiny", "per_replica_batch": 8, **axes})
    place = Place(host_cores=[0], cores_per_device=1, accelerator=accelerator, visible_gpus=["0"])
    strategy = registry.load("strategies", case.strategy)()
    (plan,) = plan_launch(case, 0, strategy, place, Folders(tmp_path), measure=Measure(), profile=None, pass_="timed")
    return {name: value for name, value in plan.environment.items() if name.startswith("NCCL_DEBUG")}


def test_nccl_writes_its_log_where_a_case_asks_for_it_on_gpus(tmp_path: Path) -> None:
    told = _told(tmp_path, "gpu", collective="nccl")
    assert told == {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,ENV,GRAPH,NET",
        "NCCL_DEBUG_FILE": str(tmp_path / "rank0/nccl.log"),
    }
    assert _told(tmp_path, "gpu", transport="rdma") == told
    assert _told(tmp_path, "gpu") == _told(tmp_path, "cpu", transport="tcp") == {}
    assert _told(tmp_path, "gpu", transport="tcp", env={"NCCL_DEBUG": "WARN"})["NCCL_DEBUG"] == "WARN"


def test_a_per_cent_sign_in_a_path_is_no_placeholder_of_nccl() -> None:
    assert logging("/a/50%h")["NCCL_DEBUG_FILE"] == "/a/50%%h/nccl.log"
