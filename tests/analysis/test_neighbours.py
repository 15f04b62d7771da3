"""Racks from measured pairs: described networks are found again, and nothing is found where nothing is."""

import itertools

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage

from tfscale.suite.analysis import neighbours
from tfscale.suite.topology import Topology

GBIT = 125e6


def measured(racks: list[int], inside: float, across: float, noise: float = 0.0, latency: float = 2e-4) -> dict:
    """(latency, bandwidth) of every pair, as one pair alone on the network sees it."""
    draw = np.random.default_rng(0)
    return {
        (one, other): (
            latency * (1 + noise * draw.standard_normal()),
            (inside if racks[one] == racks[other] else across) * (1 + noise * draw.standard_normal()),
        )
        for one, other in itertools.combinations(range(len(racks)), 2)
    }


@pytest.mark.parametrize("racks", [[0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1], [0, 1, 2, 0, 1, 2], [0, 1, 1]])
def test_racks_are_found_in_any_order(racks: list[int]) -> None:
    found = neighbours.racks(len(racks), measured(racks, GBIT, GBIT / 5, noise=0.05))
    assert found.racks == tuple(racks)
    assert "bandwidth" in found.reason


def test_latency_parts_hosts_whose_bandwidths_are_equal() -> None:
    pairs = measured([0, 0, 1, 1], GBIT, GBIT, noise=0.02)
    far = {
        pair: (latency * (10 if (pair[0] < 2) != (pair[1] < 2) else 1), bandwidth)
        for pair, (latency, bandwidth) in pairs.items()
    }
    found = neighbours.racks(4, far)
    assert found.racks == (0, 0, 1, 1)
    assert "latency" in found.reason


@pytest.mark.parametrize(("hosts", "says"), [(1, "one host"), (2, "nothing to compare"), (5, "differs by")])
def test_one_rack_where_nothing_parts_them(hosts: int, says: str) -> None:
    found = neighbours.racks(hosts, measured([0] * hosts, GBIT, GBIT, noise=0.05))
    assert found.racks == (0,) * hosts
    assert not found.several
    assert says in found.reason


def test_what_is_not_known_parts_nobody() -> None:
    pairs = dict.fromkeys(itertools.combinations(range(3), 2), (None, None))
    assert neighbours.racks(3, pairs).racks == (0, 0, 0)
    assert "not known" in neighbours.racks(3, pairs).reason


def test_joins_are_those_of_an_independent_single_linkage() -> None:
    draw = np.random.default_rng(3)
    for hosts in (3, 5, 9):
        pairs = list(itertools.combinations(range(hosts), 2))
        distances = dict(zip(pairs, draw.uniform(1, 10, len(pairs)).tolist(), strict=True))
        tree = linkage(np.array(list(distances.values())), method="single")
        heights = [distance for distance, _ in neighbours.joins(hosts, distances)]
        np.testing.assert_allclose(heights, tree[:, 2])
        cut = heights[len(heights) // 2]
        labels = fcluster(tree, cut, criterion="distance")
        mine = neighbours.components(hosts, distances, cut)
        assert [[a == b for a in mine] for b in mine] == [[a == b for a in labels] for b in labels]


def test_the_topology_can_be_read_again(tmp_path) -> None:  # type: ignore[no-untyped-def]
    racks = [0, 1, 0, 1]
    pairs = measured(racks, GBIT, GBIT / 5)
    found = neighbours.racks(4, pairs)
    made = neighbours.topology("lab", found, {pair: bandwidth for pair, (_, bandwidth) in pairs.items()})
    assert made == Topology.model_validate(
        {
            "name": "lab",
            "racks": {"a": {"link": "1Gbit", "uplink": "200Mbit"}, "b": {"link": "1Gbit", "uplink": "200Mbit"}},
            "hosts": ["a", "b", "a", "b"],
        }
    )
    from tfscale.suite import topology

    (tmp_path / "lab.yaml").write_text(neighbours.as_yaml(made, found))
    assert topology.load("lab.yaml", tmp_path, tmp_path) == made


def test_rates_have_three_digits_and_a_lone_host_no_link() -> None:
    pairs = measured([0, 0, 1], 117_512_345.0, 11_851_111.0)
    found = neighbours.racks(3, pairs)
    made = neighbours.topology("lab", found, {pair: bandwidth for pair, (_, bandwidth) in pairs.items()})
    assert made.racks["a"].link == 940_000_000 and made.racks["a"].uplink == 94_800_000
    assert made.racks["b"].link is None and made.racks["b"].uplink == 94_800_000
