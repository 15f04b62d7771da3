"""The cost model against closed forms, floors of a described network, and brute-force rings; fits against known links."""

import math

import numpy as np
import pytest

from tfscale.suite.analysis import communication as cost
from tfscale.suite.analysis.communication import Link, Moved
from tfscale.suite.analysis.linkfit import LinkFit, Point, fit

LINK = Link(latency_s=1e-4, seconds_per_byte=8e-8)  # 100 Mbit/s


def ring_by_hand(ranks: int, size: float, link: Link, rounds: int) -> float:
    """A ring simulated message by message: a rank sends a part when it has it and its link is free."""
    free = [0.0] * ranks
    has = [0.0] * ranks
    for _ in range(rounds):
        arrivals = [max(free[r], has[r]) + link.seconds(size / ranks) for r in range(ranks)]
        free = arrivals
        has = [arrivals[r - 1] for r in range(ranks)]
    return max(has)


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
def test_rings_take_what_a_simulated_ring_takes(ranks: int) -> None:
    size = 1e6
    for kind, rounds in (("all_reduce", 2 * (ranks - 1)), ("all_gather", ranks - 1), ("reduce_scatter", ranks - 1)):
        assert cost.seconds(kind, ranks, size, LINK) == pytest.approx(ring_by_hand(ranks, size, LINK, rounds))


@pytest.mark.parametrize(
    ("kind", "ranks", "messages", "share"),
    [
        ("all_reduce", 4, 6, 1.5),
        ("all_gather", 4, 3, 0.75),
        ("reduce_scatter", 8, 7, 0.875),
        ("all_to_all", 2, 1, 0.5),
        ("broadcast", 2, 1, 1.0),
        ("broadcast", 5, 3, 3.0),
        ("broadcast", 8, 3, 3.0),
    ],
)
def test_terms_of_each_algorithm(kind: str, ranks: int, messages: int, share: float) -> None:
    expected = messages * LINK.latency_s + share * 2**20 * LINK.seconds_per_byte
    assert cost.seconds(kind, ranks, 2**20, LINK) == pytest.approx(expected)
    assert cost.seconds(kind, 1, 2**20, LINK) == 0.0


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather() -> None:
    for ranks in (2, 3, 16):
        parts = cost.seconds("reduce_scatter", ranks, 1e6, LINK) + cost.seconds("all_gather", ranks, 1e6, LINK)
        assert cost.seconds("all_reduce", ranks, 1e6, LINK) == pytest.approx(parts)


def test_a_large_broadcast_goes_in_parts_and_a_small_one_does_not() -> None:
    assert cost.broadcast_in_parts(8, 1e8, LINK) < cost.seconds("broadcast", 8, 1e8, LINK)
    assert cost.broadcast_in_parts(8, 8, LINK) > cost.seconds("broadcast", 8, 8, LINK)
    # 10 messages and 2 x 7/8 of the vector: lg 8 + 7, as Thakur et al. give it.
    assert cost.broadcast_in_parts(8, 1e6, LINK) == pytest.approx(10 * 1e-4 + 1.75 * 1e6 * 8e-8)


def test_floors_of_two_racks() -> None:
    """10 MB, four hosts in two racks, 1 Gbit/s in the rack, 200 Mbit/s core: 600, 1,200 and 400 ms by hand."""
    rack, core = Link(0.0, 8e-9), Link(0.0, 4e-8)
    ordered = [rack, core, rack, core]
    interleaved = [core.shared_by(2)] * 4
    assert cost.ring_all_reduce(ordered, 1e7) == pytest.approx(0.6)
    assert cost.ring_all_reduce(interleaved, 1e7) == pytest.approx(1.2)
    across = cost.two_level_all_reduce(2, 2, 1e7, inside=Link(0.0, 0.0), across=core)
    assert across == pytest.approx(0.4)
    # In the rack 2 x S/2 at 1 Gbit/s, 80 ms; in 20 chunks only one chunk's worth of it shows.
    plain = cost.two_level_all_reduce(2, 2, 1e7, inside=rack, across=core)
    assert plain == pytest.approx(0.48)
    chunked = cost.two_level_all_reduce(2, 2, 1e7, inside=rack, across=core, chunks=20)
    assert chunked == pytest.approx(0.4 + 0.08 / 20)


def test_an_equal_ring_is_the_general_one() -> None:
    assert cost.ring_all_reduce([LINK] * 5, 1e6) == pytest.approx(cost.seconds("all_reduce", 5, 1e6, LINK))


def test_two_levels_of_collectives_cost_what_the_formula_says() -> None:
    rack, core = Link(1e-5, 8e-9), Link(1e-4, 4e-8)
    links = {("rack", "all_reduce"): rack, ("across", "all_reduce"): core.shared_by(2)}
    chunks, part = 10, 1e6
    moved = []
    for _ in range(chunks):
        moved += [
            Moved("reduce_scatter", part, 2, "rack"),
            Moved("all_reduce", part / 2, 2, "across"),
            Moved("all_gather", part, 2, "rack"),
        ]
    wanted = cost.two_level_all_reduce(2, 2, chunks * part, inside=rack, across=core, chunks=chunks)
    assert cost.exchange_seconds(moved, links) == pytest.approx(wanted)
    with pytest.raises(KeyError):
        cost.exchange_seconds([Moved("all_reduce", 1, 2, "all")], links)


def test_packs_are_those_of_tensorflow() -> None:
    # A pack is closed once it is larger than the limit, so it may be one tensor more.
    assert cost.packs([100, 10, 10, 10], 25) == [30, 100]
    assert cost.packs([100, 10, 10], 25) == [120]
    assert cost.packs([5, 5], 0) == [10]
    assert cost.packs([], 4) == []


def test_what_the_backward_pass_hides() -> None:
    assert cost.exposed([(10, 3.0)], 2.0) == 3.0, "one pack waits for all gradients"
    assert cost.exposed([(5, 1.0), (5, 1.0)], 4.0) == 1.0, "the last pack is always seen"
    assert cost.exposed([(5, 4.0), (5, 4.0)], 4.0) == 6.0, "the wire is busy from half the pass on"
    slow_link = [(1, 1.0)] * 100
    assert cost.exposed(slow_link, 10.0) == pytest.approx(100.0 + 0.1 - 10.0)
    told = cost.with_overlap(0.5, [(5, 4.0), (5, 4.0)], 4.0)
    assert (told.wire_s, told.hidden_s, told.added_s) == (8.0, 2.0, 6.5)


SIZES = [2.0**power for power in range(10, 27, 2)]


def noisy(kind: str, ranks: int, spread: float, draw: np.random.Generator, repeats: int = 1) -> list[Point]:
    """Timed collectives of LINK with relative noise."""
    return [
        Point(size, cost.seconds(kind, ranks, size, LINK) * (1 + spread * draw.standard_normal()))
        for size in SIZES
        for _ in range(repeats)
    ]


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "all_to_all", "broadcast"])
def test_exact_points_give_the_link_back(kind: str) -> None:
    found = fit(noisy(kind, 4, 0.0, np.random.default_rng(0)), kind, 4)
    assert found.link.latency_s == pytest.approx(LINK.latency_s, rel=1e-9)
    assert found.link.seconds_per_byte == pytest.approx(LINK.seconds_per_byte, rel=1e-9)
    assert found.misfit < 1e-9
    # The same link under another algorithm and number of ranks.
    predicted = found.predict(3e5, ranks=8, kind="all_gather")
    assert predicted.value == pytest.approx(cost.seconds("all_gather", 8, 3e5, LINK))


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    draw = np.random.default_rng(1)
    fits = [fit(noisy("all_reduce", 4, 0.1, draw), "all_reduce", 4) for _ in range(1000)]

    def share(holds: list[bool]) -> float:
        return sum(holds) / len(holds)

    def inside(interval: tuple[float, float] | None, value: float) -> bool:
        return interval is not None and interval[0] <= value <= interval[1]

    assert 0.93 <= share([inside(each.latency_ci95, LINK.latency_s) for each in fits]) <= 0.97
    assert 0.93 <= share([inside(each.per_byte_ci95, LINK.seconds_per_byte) for each in fits]) <= 0.97
    truth = cost.seconds("all_reduce", 4, 5e4, LINK)
    assert 0.93 <= share([inside(each.predict(5e4).ci95, truth) for each in fits]) <= 0.97
    assert np.mean([each.misfit for each in fits]) == pytest.approx(0.1 * math.sqrt(1 - 2 / len(SIZES)), rel=0.05)


def test_small_sizes_count_as_much_as_large_ones() -> None:
    """Plain least squares on the same points puts latency far off: the noise of the largest sizes is thousands of it."""
    draw = np.random.default_rng(2)
    drawn = [noisy("all_reduce", 4, 0.05, draw) for _ in range(100)]
    latencies = [fit(points, "all_reduce", 4).link.latency_s for points in drawn]
    assert np.mean(latencies) == pytest.approx(LINK.latency_s, rel=0.02)
    assert np.std(latencies) < 0.1 * LINK.latency_s
    plain = [
        np.polyfit([each.size for each in points], [each.seconds for each in points], 1)[1] / 6 for points in drawn
    ]
    assert np.std(plain) > 10 * LINK.latency_s


def test_nothing_is_negative() -> None:
    falling = [Point(1e3, 2.0), Point(1e6, 1.0), Point(1e6, 1.1)]
    found = fit(falling, "all_reduce", 2)
    assert found.link.seconds_per_byte == 0.0 < found.link.latency_s
    assert found.per_byte_ci95[0] == 0.0
    steep = [Point(1e3, 1e-9), Point(1e6, 1.0), Point(2e6, 2.5)]
    found = fit(steep, "all_reduce", 2)
    assert found.link.latency_s >= 0.0 and found.latency_ci95[0] == 0.0
    assert found.link.seconds_per_byte > 0.0


def test_a_law_that_is_no_line_shows_as_misfit() -> None:
    points = [Point(size, 1e-4 + 1e-9 * size**1.3) for size in SIZES]
    assert fit(points, "all_reduce", 2).misfit > 0.2


@pytest.mark.parametrize(
    "points",
    [
        [Point(1, 1.0), Point(2, 1.0)],
        [Point(1, 1.0)] * 5,
        [Point(1, 0.0), Point(2, 1.0), Point(3, 1.0)],
    ],
)
def test_too_little_to_tell(points: list[Point]) -> None:
    with pytest.raises(ValueError, match="a link needs"):
        fit(points, "all_reduce", 2)


def test_a_fit_is_of_one_kind() -> None:
    found: LinkFit = fit([Point(1, 1.0), Point(1, 1.2), Point(9, 2.0)], "broadcast", 4)
    assert (found.kind, found.ranks, found.n) == ("broadcast", 4, 3)
