"""Exact exchanges give the losses of one device on the same global batch: toy and BERT, over every kind of wire."""

import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_ranks
from toy_ranks import Ran, assert_same_loss

from tfscale.suite.exchange.base import create
from tfscale.suite.spec import Case

pytestmark = [pytest.mark.tensorflow, pytest.mark.system]

EXCHANGES = ["none", "pack(mib=0.5)", "hierarchical(chunks=3)"]
"""A new exact exchange joins by its name."""
STEPS = 10
TOLERANCE = 1e-5
WORKLOADS: dict[str, dict[str, Any]] = {
    "toy": {"workload": "toy_workload:SGD", "preset": "pool", "batch": 16},
    "bert": {"workload": "bert", "preset": "tiny", "batch": 4},
}
RACKS = {"racks": {"a": {}, "b": {}}}
PLACED: dict[str, dict[str, Any]] = {
    "mirrored": {"strategy": "mirrored", "devices": 2},
    "multi_worker_mirrored": {
        "strategy": "multi_worker_mirrored",
        "devices": 2,
        "topology": {**RACKS, "hosts": ["a", "b"]},
    },
}


def case(workload: str, **axes: Any) -> Case:
    named = dict(WORKLOADS[workload])
    batch = named.pop("batch")
    return Case(**named, per_replica_batch=batch // axes.get("devices", 1), **axes)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The loss of one device after STEPS steps on the whole batch, by workload."""

    @cache
    def reference(workload: str) -> Ran:
        folder = tmp_path_factory.mktemp(workload)
        return toy_ranks.run(case(workload), folder, steps=STEPS, dropout=0.0).assert_clean()

    return reference


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("placed", PLACED)
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_loss_equals_one_device(exchange: str, placed: str, workload: str, alone: Any, tmp_path: Path) -> None:
    asked = case(workload, exchange=exchange, **PLACED[placed])
    named = create(exchange)
    assert named.exact
    if reason := named.refuses(asked):
        pytest.skip(reason)
    ran = toy_ranks.run(asked, tmp_path, steps=STEPS, dropout=0.0).assert_clean()
    assert_same_loss(alone(workload), ran, TOLERANCE)


@pytest.mark.parametrize("order", ["listed", "topology"])
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_any_order_of_ranks(exchange: str, order: str, alone: Any, tmp_path: Path) -> None:
    topology = {**RACKS, "hosts": ["a", "b", "a", "b"]}
    axes = {"strategy": "multi_worker_mirrored", "devices": 4, "topology": topology, "order": order}
    ran = toy_ranks.run(case("toy", exchange=exchange, **axes), tmp_path, steps=STEPS).assert_clean()
    assert_same_loss(alone("toy"), ran, TOLERANCE)
