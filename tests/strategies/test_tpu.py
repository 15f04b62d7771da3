"""The TPU strategy on a resolver, a system and a strategy that only pretend."""

from types import SimpleNamespace
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from tfscale.suite.strategies.tpu import connect  # noqa: E402

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records what is done to the TPU, which has 8 cores on one host."""
    done: list[str] = []
    topology = SimpleNamespace(num_tasks=1, num_tpus_per_task=8)

    def build(topology: Any, num_replicas: int) -> str:
        done.append(f"assign {num_replicas}")
        return f"{num_replicas} cores"

    def initialize(resolver: Any) -> Any:
        done.append(f"initialize {resolver}")
        return topology

    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", lambda r: done.append(f"connect {r}"))
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", initialize)
    monkeypatch.setattr(tf.tpu.experimental.DeviceAssignment, "build", build)
    return done


def test_connects_before_it_initialises(calls: list[str]) -> None:
    made = connect(lambda tpu: f"resolver of {tpu}", lambda resolver: ("all", resolver), 8)
    assert made == ("all", "resolver of local")
    assert calls == ["connect resolver of local", "initialize resolver of local"]


def test_a_slice_is_reached_by_the_name_in_the_environment(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_NAME", "grpc://a:8470,grpc://b:8470")
    assert connect(lambda tpu: tpu, lambda resolver: resolver, 8) == "grpc://a:8470,grpc://b:8470"


def test_fewer_cores_get_an_assignment(calls: list[str]) -> None:
    made = connect(lambda tpu: tpu, lambda resolver, experimental_device_assignment: experimental_device_assignment, 4)
    assert made == "4 cores"


def test_too_few_cores_are_an_error(calls: list[str]) -> None:
    with pytest.raises(RuntimeError, match="16 TPU cores are planned, the TPU has 8"):
        connect(lambda tpu: tpu, lambda resolver: resolver, 16)
