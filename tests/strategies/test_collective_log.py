"""Reading back the collective implementation from lines that TensorFlow 2.17 and 2.21 really wrote."""

import pytest

from tfscale.suite.strategies.collective_log import effective, implementations

RING = (
    "INFO:tensorflow:Collective all_reduce tensors: 5 all_reduces, num_devices = 2, group_size = 2, "
    "implementation = CommunicationImplementation.RING, num_packs = 1\n"
    "INFO:tensorflow:Collective all_reduce IndexedSlices: 1 all_reduces, num_devices =2, group_size = 2, "
    "implementation = CommunicationImplementation.RING\n"
)
AUTO = (
    "INFO:tensorflow:Collective all_reduce tensors: 5 all_reduces, num_devices = 1, group_size = 2, "
    "implementation = CommunicationImplementation.AUTO, num_packs = 1\n"
)
NCCL = AUTO.replace("AUTO", "NCCL")
ALONE = NCCL.replace("group_size = 2", "group_size = 1")
# As in reports of users: a plain name, and a batch all-reduce.
OLD = (
    "INFO:tensorflow:Collective batch_all_reduce: 153 all-reduces, num_devices = 4, group_size = 4, "
    "implementation = NCCL, num_packs = 1\n"
)
GATHER = (
    "INFO:tensorflow:Collective batch_all_gather: 1 all-gathers, num_devices = 2, group_size = 2, "
    "implementation = CommunicationImplementation.RING, \n"
)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (RING, {"ring": 2}),
        (AUTO, {"auto": 1}),
        (NCCL + AUTO, {"nccl": 1, "auto": 1}),
        (OLD, {"nccl": 1}),
        (GATHER, {"ring": 1}),
        (ALONE, {}),
        ("nothing of the kind", {}),
    ],
)
def test_implementations(log: str, expected: dict[str, int]) -> None:
    assert implementations(log) == expected


def test_a_cpu_runs_its_ring_whatever_was_asked_for() -> None:
    assert effective(RING, "cpu") == {"collective": "ring"}
    asked = effective(NCCL, "cpu")
    assert asked["collective"] == "ring"
    assert "nccl" in asked["collective_reason"]


def test_on_a_gpu_auto_for_some_groups_is_not_nccl() -> None:
    assert effective(NCCL, "gpu") == {"collective": "nccl"}
    mixed = effective(NCCL + AUTO, "gpu")
    assert mixed["collective"] is None
    assert "auto for 1, nccl for 1" in mixed["collective_reason"]
    assert effective(AUTO, "gpu")["collective"] is None


def test_without_a_line_there_is_a_reason() -> None:
    assert effective(None, "cpu")["collective"] is None
    assert "no collective" in effective("", "gpu")["collective_reason"]
