"""Plans: cores, addresses, devices, all consistent over the ranks of a launch."""

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "toy"))
import toy_bench as toy

from tfscale.suite.launch import load_strategy
from tfscale.suite.launchers.base import Host
from tfscale.suite.planner import Folders, Place, _devices_shown, cluster_of, plan_launch
from tfscale.suite.spec import Case, Measure
from tfscale.suite.strategies.base import RankLayout


def test_every_rank_gets_its_cores_folder_and_address(tmp_path: Path) -> None:
    place = Place(host_cores=[4, 5, 6, 7], cores_per_device=2, ports=lambda n: [7000 + i for i in range(n)])
    plans = toy.plans(toy.case(devices=2), tmp_path, place=place)
    assert [plan.cores for plan in plans] == [[4, 5], [6, 7]]
    assert [plan.directory for plan in plans] == [str(tmp_path / "rank0"), str(tmp_path / "rank1")]
    assert plans[0].cluster == {"worker": ["127.0.0.1:7000", "127.0.0.1:7001"]} == plans[1].cluster
    assert '"index": 1' in (plans[1].tf_config or "")
    assert {plan.environment["CUDA_VISIBLE_DEVICES"] for plan in plans} == {"-1"}


def test_too_few_cores_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="3 cores, 4 are needed"):
        toy.plans(toy.case(devices=2), tmp_path, place=Place([0, 1, 2], 2))


def test_the_rank_of_a_tpu_has_all_cores_of_its_host(tmp_path: Path) -> None:
    plans = toy.plans(toy.case(devices=2), tmp_path, place=Place([0, 1, 2], 2, accelerator="tpu"))
    assert [plan.cores for plan in plans] == [[0, 1, 2], [0, 1, 2]]


def test_ranks_that_do_not_talk_have_no_cluster(tmp_path: Path) -> None:
    plans = toy.plans(toy.case(devices=2, strategy="Apart"), tmp_path)
    assert [plan.cluster for plan in plans] == [{}, {}]
    assert plans[1].tf_config is None


def test_a_coordinator_is_the_chief_of_its_cluster() -> None:
    layouts = [
        RankLayout("coordinator", 0, 0, 0, 0),
        RankLayout("worker", 0, 0, 1, 0),
        RankLayout("worker", 1, 0, 1, 1),
        RankLayout("ps", 0, 0, 0, 0),
    ]
    cluster = cluster_of(layouts, toy.Apart(), lambda n: list(range(n)), [Host()])
    assert cluster == {
        "chief": ["127.0.0.1:0"],
        "worker": ["127.0.0.1:1", "127.0.0.1:2"],
        "ps": ["127.0.0.1:3"],
    }


def test_gpus_are_handed_out_once() -> None:
    layouts = [RankLayout("worker", i, 0, 2, 2 * i) for i in range(2)] + [RankLayout("ps", 0, 0, 0, 0)]
    shown = [_devices_shown(layouts, rank, "gpu", ["3", "4", "6", "7"])["CUDA_VISIBLE_DEVICES"] for rank in range(3)]
    assert shown == ["3,4", "6,7", "-1"]
    with pytest.raises(ValueError, match="needs 2 GPUs"):
        _devices_shown(layouts, 1, "gpu", ["3", "4", "6"])


def test_a_thousand_ranks_are_planned_in_a_second() -> None:
    case = Case(
        workload="bert", preset="tiny", strategy="multi_worker_mirrored", devices=1024, hosts=128, per_replica_batch=1
    ).with_values(ranks="device")
    hosts = [Host(f"fd00::{n + 1:x}", tuple(range(8)), gpus=tuple(map(str, range(8)))) for n in range(128)]
    place = Place([], 1, accelerator="gpu", ports=lambda count: list(range(20_000, 20_000 + count)))
    strategy = load_strategy("multi_worker_mirrored")
    began = time.perf_counter()
    plans = plan_launch(
        case, 0, strategy, place, Folders(Path("/t")), measure=Measure(), profile=None, pass_="timed", hosts=hosts
    )
    assert time.perf_counter() - began < 1.0
    assert len(plans) == len(set(plans[0].cluster["worker"])) == 1024
    assert plans[9].cluster["worker"][9] == "[fd00::2]:20009"
    assert (plans[9].host, plans[9].environment["CUDA_VISIBLE_DEVICES"], plans[9].cores) == (1, "1", [1])
