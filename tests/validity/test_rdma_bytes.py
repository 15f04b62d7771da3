from dataclasses import replace

import pytest
from judged import evidence, only

from tfscale.suite.record import Monitored, Quantity
from tfscale.suite.validity import transported

NCCL = {"strategy": "multi_worker_mirrored", "devices": 2, "collective": "nccl"}


@pytest.mark.parametrize(
    ("share", "asked", "status"),
    [(1.0, "gdr", "VALID"), (0.5, "gdr", "INVALID"), (3.0, "gdr", "SUSPECT"), (0.0, "auto", "VALID")],
)
def test_rdma_counters_against_the_all_reduce(share: float, asked: str, status: str) -> None:
    """Two hosts with one GPU each: a ring and a tree both send S a step."""
    size = 1_000_000
    found = evidence(transport=asked, hosts=2, result={"counts": {"gradient_bytes": size}}, **NCCL)
    steady = found.timing.steady
    steps = int(found.ranks[0].series.steps[steady.start : steady.stop].sum())
    sent = Quantity(value=share * steps * size, unit="B", kind="measured", statistic="growth")
    check = only(
        transported.rdma_bytes(replace(found, monitors={"rdma": Monitored(summary={"mlx5_0/1": {"tx_bytes": sent}})}))
    )
    assert check.status == status
