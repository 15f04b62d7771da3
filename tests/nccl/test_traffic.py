"""Bytes over a host's edge: closed forms, and a brute force that passes real chunks along rings and trees."""

from collections import Counter

import pytest

from tfscale.suite.nccl.traffic import Traffic, all_reduce, compare


@pytest.mark.parametrize(
    ("hosts", "gpus", "low", "high"),
    [
        (1, 8, 0, 0),
        (2, 1, 1, 1),  # two hosts exchange their S, whatever the algorithm
        (2, 8, 1, 2 * 15 / 16),
        (3, 1, 1, 1.5),
        (4, 1, 1, 2),
        (64, 8, 1, 2),
    ],
)
def test_closed_forms_in_units_of_the_size(hosts: int, gpus: int, low: float, high: float) -> None:
    found = all_reduce(1e9, hosts, gpus)
    assert (found.low / 1e9, found.high / 1e9) == pytest.approx((low, high))


Sent = Counter[int]
"""Host -> bytes that it sent to other hosts."""


def _ring(hosts: int, gpus: int, size: int) -> tuple[Sent, Sent]:
    """A ring all-reduce, chunk by chunk, hosts in a row; checks the sums, counts what crosses hosts."""
    ranks = hosts * gpus
    chunk = size // ranks
    data = [[rank + 1] * ranks for rank in range(ranks)]
    sent, received = Counter[int](), Counter[int]()
    for step in range(2 * (ranks - 1)):
        moves = []
        for rank in range(ranks):
            which = (rank - step) % ranks if step < ranks - 1 else (rank + 1 - (step - ranks + 1)) % ranks
            moves.append((rank, (rank + 1) % ranks, which, data[rank][which]))
        for rank, to, which, value in moves:
            data[to][which] = data[to][which] + value if step < ranks - 1 else value
            if rank // gpus != to // gpus:
                sent[rank // gpus] += chunk
                received[to // gpus] += chunk
    assert data == [[ranks * (ranks + 1) // 2] * ranks] * ranks
    return sent, received


def _binary_tree(hosts: int) -> dict[int, int]:
    """Child -> parent: odd hosts are leaves; an inner host's lowest set bit is its height, host 0 the root."""
    parents = {}
    for host in range(1, hosts):
        bit = host & -host
        up = (host ^ bit) | (bit << 1)
        parents[host] = up if up < hosts else host ^ bit
    return parents


def _double_tree(hosts: int, size: int) -> tuple[Sent, Sent]:
    """Reduce to the root and broadcast from it, over two trees with half of the data each."""
    first = _binary_tree(hosts)
    if hosts % 2:
        second = {(child + 1) % hosts: (parent + 1) % hosts for child, parent in first.items()}
    else:
        second = {hosts - 1 - child: hosts - 1 - parent for child, parent in first.items()}
    sent, received = Counter[int](), Counter[int]()
    for tree in (first, second):
        (root,) = set(range(hosts)) - set(tree)
        children: dict[int, list[int]] = {}
        for child, parent in tree.items():
            children.setdefault(parent, []).append(child)

        def reduced(host: int, children: dict[int, list[int]] = children) -> int:
            total = host + 1
            for child in children.get(host, []):
                total += reduced(child)
                sent[child] += size // 2
                received[host] += size // 2
            return total

        assert reduced(root) == hosts * (hosts + 1) // 2
        for child, parent in tree.items():
            sent[parent] += size // 2
            received[child] += size // 2
    inner = [set(tree.values()) for tree in (first, second)]
    assert all(len([tree for tree in inner if host in tree]) < 2 or hosts < 3 for host in range(hosts) if host)
    return sent, received


@pytest.mark.parametrize("hosts", range(2, 9))
@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_a_ring_that_really_runs_moves_what_the_formula_says(hosts: int, gpus: int) -> None:
    ranks = hosts * gpus
    size = 840 * ranks
    bounds = all_reduce(size, hosts, gpus)
    for moved in _ring(hosts, gpus, size):
        assert set(moved.values()) == {2 * size * (ranks - 1) // ranks}
        assert len(moved) == hosts
        assert all(bounds.low <= count <= bounds.high for count in moved.values())


@pytest.mark.parametrize("hosts", range(2, 40))
def test_trees_that_really_run_stay_within_the_range(hosts: int) -> None:
    size = 1000
    bounds = all_reduce(size, hosts, 1)
    for moved in _double_tree(hosts, size):
        assert sum(moved.values()) == 2 * size * (hosts - 1)
        assert bounds.low <= min(moved.values())
        assert max(moved.values()) <= bounds.high


def test_the_range_is_reached_at_both_ends() -> None:
    sent, _ = _double_tree(8, 1000)
    assert (min(sent.values()), max(sent.values())) == (1000, 2000)


_STEP = Traffic(1e9, 2e9)


@pytest.mark.parametrize(
    ("grown", "protocol", "where"),
    [
        (0.0, "any", "below"),
        (9.7e9, "any", "below"),
        (9.9e9, "any", "within"),
        (2.1e10, "Simple", "within"),
        (2.2e10, "Simple", "above"),
        (4.2e10, "any", "within"),
        (4.4e10, "any", "above"),
    ],
)
def test_counters_against_the_range(grown: float, protocol: str, where: str) -> None:
    assert compare(grown, 10, _STEP, protocol=protocol)[0] == where


def test_what_it_means_is_said() -> None:
    assert "over TCP" in compare(0.0, 10, _STEP)[1]
    assert "something else" in compare(1.0, 3, all_reduce(1e9, 1, 8))[1]
    assert compare(0.0, 3, all_reduce(1e9, 1, 8))[0] == "within"


@pytest.mark.parametrize(("size", "hosts", "gpus"), [(-1, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_impossible_machines_are_refused(size: float, hosts: int, gpus: int) -> None:
    with pytest.raises(ValueError, match="hosts and GPUs from 1"):
        all_reduce(size, hosts, gpus)
    with pytest.raises(ValueError, match="nothing to compare"):
        compare(1.0, 0, _STEP)
