"""Loads of links against a walk over every chunk of a ring, and against floors that were worked out by hand."""

import random
from collections import Counter

import pytest

from tfscale.suite.analysis.linkload import (
    Link,
    all_to_all,
    bottleneck,
    busy_s,
    ring_all_reduce,
    ring_gather,
    send,
    two_level_all_reduce,
)
from tfscale.suite.topology import Topology

RACK = {"link": "1Gbit", "uplink": "200Mbit"}
TWO_RACKS = Topology.model_validate({"racks": {"a": RACK, "b": RACK}, "hosts": ["a", "a", "b", "b"]})
TEN_MB = 10e6


def brute_ring(topology: Topology, places: list[int], payload: float) -> dict[Link, float]:
    """Every chunk of a ring all-reduce, hop by hop: n - 1 rounds of reducing and n - 1 of handing round."""
    n, moved = len(places), Counter[Link]()
    for _ in range(2 * (n - 1)):
        for position in range(n):  # each sends one of n chunks to the next, whichever it is
            for link, amount in send(topology, places[position], places[(position + 1) % n], payload / n).items():
                moved[link] += amount  # type: ignore[assignment]
    return dict(moved)


@pytest.mark.parametrize("seed", range(5))
def test_a_ring_is_the_sum_of_its_hops(seed: int) -> None:
    draw = random.Random(seed)
    racks = dict.fromkeys("abc", RACK)
    hosts = [*racks, *draw.choices(list(racks), k=4)]
    topology = Topology.model_validate({"racks": racks, "hosts": hosts})
    places = [place for place in range(len(hosts)) for _ in range(draw.choice((1, 2)))]
    draw.shuffle(places)
    load, brute = ring_all_reduce(topology, places, 1e6), brute_ring(topology, places, 1e6)
    assert load == pytest.approx({link: amount for link, amount in brute.items() if amount})


@pytest.mark.parametrize(
    ("places", "floor_ms"),
    [([0, 1, 2, 3], 600), ([0, 2, 1, 3], 1200)],
    ids=["racks in a row", "interleaved"],
)
def test_the_core_bounds_a_ring_over_two_racks(places: list[int], floor_ms: float) -> None:
    """One crossing each way moves 1.5 x 10 MB over 200 Mbit/s; interleaved, two do."""
    found = bottleneck(TWO_RACKS, ring_all_reduce(TWO_RACKS, places, TEN_MB))
    assert found is not None
    assert found[0].host is None
    assert 1000 * found[1] == pytest.approx(floor_ms)


@pytest.mark.parametrize("places", [[0, 1, 2, 3], [0, 2, 1, 3]])
def test_two_levels_cross_the_core_once_whatever_the_order(places: list[int]) -> None:
    load = two_level_all_reduce(TWO_RACKS, places, TEN_MB)
    busy = busy_s(TWO_RACKS, load)
    assert {round(1000 * s) for link, s in busy.items() if link.host is None} == {400}
    # A host gives half away in its rack, sums its half over racks, and hands that half round: 3 x 5 MB.
    assert load[Link("a", 0, "up")] == pytest.approx(15e6)
    assert load[Link("a", 0, "down")] == pytest.approx(15e6)


def test_gathers_and_exchanges_of_parts() -> None:
    rack = Topology.model_validate({"hosts": 3, "link": "100Mbit"})
    places = [0, 1, 2]
    for load, each in (
        (ring_gather(rack, places, 900), 1800),
        (all_to_all(rack, places, 900), 600),
        (ring_all_reduce(rack, places, 900), 1200),
    ):
        assert load == pytest.approx({Link("rack", h, d): each for h in range(3) for d in ("up", "down")})  # type: ignore[arg-type]
    assert busy_s(rack, ring_gather(rack, places, 12_500_000))[Link("rack", 0, "up")] == pytest.approx(2.0)


def test_what_stays_in_a_host_loads_no_link_and_an_unlimited_one_is_no_bottleneck() -> None:
    free = Topology.model_validate({"hosts": 2})
    assert ring_all_reduce(free, [0], 1e6) == {}
    load = ring_all_reduce(free, [0, 0, 1, 1], 1e6)
    assert load[Link("rack", 0, "up")] == pytest.approx(1.5e6)
    assert bottleneck(free, load) is None


def test_racks_of_unequal_size_have_no_two_levels() -> None:
    with pytest.raises(ValueError, match=r"equal size, got \[1, 2\]"):
        two_level_all_reduce(TWO_RACKS, [0, 1, 2], 1e6)
