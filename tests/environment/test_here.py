"""What pruning is told of this host's TPUs."""

import pytest

from tfscale.suite import environment
from tfscale.suite.spec import Cluster

TPU = Cluster(accelerator="tpu")


def test_the_tpu_of_another_host_is_not_counted_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_NAME", "grpc://a:8470,grpc://b:8470")
    assert environment.machine(TPU).tpus is None
    monkeypatch.setenv("TPU_NAME", "local")
    assert environment.machine(TPU).tpus is not None
    assert environment.machine(Cluster(accelerator="cpu")).tpus == 0
