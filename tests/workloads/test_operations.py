"""Chains of collectives, run by replicas in lockstep, give exactly what each rank expects."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "exchange"))

from tfscale.workloads.micro.operations import TIMED, longest_chain, values, why_missing

pytestmark = [pytest.mark.tensorflow]


@pytest.mark.parametrize("chain", [1, 2, 3])
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("name", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_a_chain_in_lockstep(name: str, ranks: int, chain: int) -> None:
    lockstep = pytest.importorskip("lockstep")
    tf = pytest.importorskip("tensorflow")
    kind, count = TIMED[name], 7
    world = lockstep.Lockstep("none", ranks)

    def one(rank: int) -> np.ndarray:  # type: ignore[type-arg]
        wire = lockstep.LockstepWire(world, range(ranks), rank)
        value = tf.constant(kind.given(rank, ranks, count))
        for number in range(chain):
            value, out = kind.once(wire, value, number)
        return out.numpy()

    with ThreadPoolExecutor(ranks) as pool:
        results = list(pool.map(one, range(ranks)))
    for rank, out in enumerate(results):
        np.testing.assert_array_equal(out, kind.expected(rank, ranks, count, chain))


def test_a_result_that_is_wrong_is_not_expected() -> None:
    """Ranks, parts and places differ, so that swapped parts and a lost addend are seen."""
    for kind in TIMED.values():
        for chain in (1, 2):
            wanted = [kind.expected(rank, 4, 64, chain) for rank in range(4)]
            given = [kind.given(rank, 4, 64) for rank in range(4)]
            assert not np.array_equal(given[1], given[2])
            if kind.in_parts and kind.name != "reduce_scatter":
                assert not np.array_equal(wanted[1][0], wanted[1][1])
    assert not np.array_equal(values(100, 1, 2), values(100, 2, 1))


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 64])
def test_sums_stay_exact_in_the_longest_chain(ranks: int) -> None:
    chain = longest_chain(ranks)
    for name in ("all_reduce", "reduce_scatter"):
        assert TIMED[name].expected(0, ranks, 50, chain).max() < 2**24


def test_sizes_and_counts_are_those_of_nccl_tests() -> None:
    reduce, gather = TIMED["all_reduce"], TIMED["all_gather"]
    assert (reduce.count(1024, 4), reduce.size(256, 4)) == (256, 1024)
    assert (gather.count(1024, 4), gather.size(64, 4)) == (64, 1024)
    assert gather.size(gather.count(1024, 3), 3) == 1020


def test_kernels_that_are_missing() -> None:
    assert why_missing("reduce_scatter", "cpu")
    assert why_missing("reduce_scatter", "gpu") is None
    assert why_missing("all_to_all", "cpu") is None
