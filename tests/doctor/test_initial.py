"""The suites that `init` writes are read, and none of their cases is left out on the machine they were written for."""

import pytest

from tfscale.suite import initial, pruning, suitefile
from tfscale.suite.initial import Facts
from tfscale.suite.strategies.base import Machine

CARDS = ("NVIDIA A100-SXM4-80GB",) * 8


@pytest.mark.parametrize(
    ("facts", "machine"),
    [
        (Facts(cores=1), Machine(cores=1, gpus=0)),
        (Facts(cores=2), Machine(cores=2, gpus=0)),
        (Facts(cores=6, bfloat16=True), Machine(cores=6, gpus=0)),
        (Facts(cores=16, gpus=CARDS[:1], bfloat16=True), Machine(cores=16, gpus=1, kind="gpu")),
        (Facts(cores=128, gpus=CARDS, bfloat16=True), Machine(cores=128, gpus=8, kind="gpu")),
        (Facts(cores=32, gpus=("Tesla V100-SXM2-16GB",) * 6, slurm_nodes=4), Machine(cores=32, gpus=6, kind="gpu")),
    ],
    ids=["one core", "laptop", "workstation", "one GPU", "8-GPU node", "Slurm allocation"],
)
def test_a_written_suite_runs_whole(facts: Facts, machine: Machine) -> None:
    text = initial.suite(facts)
    suite = suitefile.build(suitefile.parse(text, "suite.yaml"))
    kept, pruned = pruning.prune(suite.cases, machine, "local")
    assert kept
    assert not pruned, pruned[0].reason
    assert max(case.devices for case in kept) == (len(facts.gpus) or min(facts.cores, 8))
    assert ("Slurm allocation of 4" in text) == (facts.slurm_nodes == 4)


def test_a_card_without_bfloat16_is_not_asked_for_it() -> None:
    assert "bfloat16" not in initial.suite(Facts(cores=8, gpus=("Tesla V100-SXM2-16GB",)))


@pytest.mark.parametrize(("most", "counts"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_device_counts_double_up_to_the_whole_machine(most: int, counts: list[int]) -> None:
    assert initial.devices(most) == counts
