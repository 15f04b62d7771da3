"""What reaches a rank, and when it needs a fresh interpreter."""

from pathlib import Path
from typing import Any

import pytest

from tfscale.suite.launchers.environment import base_environment, why_fresh
from tfscale.suite.plan import RankPlan
from tfscale.suite.planner import Folders, Place, plan_launch
from tfscale.suite.spec import Case, Measure
from tfscale.suite.strategies.one_device import OneDevice


def plan(place: Place | None = None, **axes: Any) -> RankPlan:
    case = Case(workload="bert", preset="tiny", per_replica_batch=2, **axes)
    place = place or Place([0], 1)
    return plan_launch(
        case, 0, OneDevice(), place, Folders(Path("/t")), measure=Measure(), profile=None, pass_="timed"
    )[0]


def test_proxies_and_tf_config_are_dropped() -> None:
    found = base_environment({"https_proxy": "x", "NO_PROXY": "y", "TF_CONFIG": "{}", "HOME": "/root"})
    assert not {"https_proxy", "NO_PROXY", "TF_CONFIG"} & set(found)
    assert found["HOME"] == "/root"
    assert found["TF_CPP_MIN_LOG_LEVEL"] == "0"


@pytest.mark.parametrize(
    ("axes", "reason"),
    [
        ({}, None),
        ({"env": {"NCCL_ALGO": "Ring"}}, None),
        ({"env": {"TF_CPP_MIN_LOG_LEVEL": "0"}}, None),
        ({"env": {"TF_ENABLE_ONEDNN_OPTS": "0"}}, "TF_ENABLE_ONEDNN_OPTS may be read at import"),
        (
            {"env": {"OMP_NUM_THREADS": "1", "KMP_BLOCKTIME": "0"}},
            "KMP_BLOCKTIME, OMP_NUM_THREADS may be read at import",
        ),
        ({"xla": "auto"}, "xla auto sets flags that are read at import"),
    ],
)
def test_what_is_read_at_import_needs_a_fresh_interpreter(axes: dict[str, Any], reason: str | None) -> None:
    assert why_fresh(plan(**axes), base_environment({})) == reason


def test_a_tpu_needs_a_fresh_interpreter_and_a_gpu_is_left_to_the_probe() -> None:
    gpu = Place([0], 1, accelerator="gpu", visible_gpus=["0"])
    assert why_fresh(plan(gpu), base_environment({})) is None
    tpu = plan().model_copy(update={"accelerator": "tpu"})
    assert why_fresh(tpu, base_environment({})) == "a TPU is used"
