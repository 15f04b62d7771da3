"""The pass that keeps losses: all ranks take the same steps, and stop when the deciding one has seen the target."""

import math
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "toy"))

from tfscale.suite.losses import arrays, train
from tfscale.suite.plan import Lengths
from tfscale.suite.timing.protocol import Fetched


@dataclass
class World:
    """Ranks whose step is done when all have dispatched it; each sees the sum of the controls given with it."""

    ranks: int
    losses: list[float]
    given: dict[tuple[int, int], float] = field(default_factory=dict)
    news: threading.Condition = field(default_factory=threading.Condition)


class Rank:
    def __init__(self, world: World, rank: int) -> None:
        self.world, self.rank, self.dispatched = world, rank, 2

    def dispatch(self, steps: int, control: float) -> "Step":
        assert steps == 1
        self.dispatched += 1
        with self.world.news:
            self.world.given[self.dispatched, self.rank] = control
            self.world.news.notify_all()
        return Step(self.world, self.dispatched)


@dataclass
class Step:
    world: World
    number: int

    def fetch(self) -> Fetched:
        world = self.world
        keys = [(self.number, rank) for rank in range(world.ranks)]
        with world.news:
            met = world.news.wait_for(lambda: all(key in world.given for key in keys), timeout=5)
        assert met, f"step {self.number} was not taken by all ranks"
        return fetched(self.number, world.losses[self.number - 1], sum(world.given[key] for key in keys))


def fetched(step: int, loss: float, control: float = 0.0, staleness: float | None = None) -> Fetched:
    return Fetched(step=step, samples=step, loss=loss, skipped=0, control=control, staleness=staleness)


def run(losses: list[float], lengths: Lengths, ranks: int = 2, ahead: int = 1) -> list[list[float]]:
    """The losses that each rank kept."""
    world = World(ranks, losses)
    begun = [fetched(1, losses[0]), fetched(2, losses[1])]

    def one(rank: int) -> list[float]:
        found = train(Rank(world, rank), lengths, begun, decides=rank == 0, ahead=ahead)
        return [step.loss for step in found]

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(one, range(ranks)))


def falling(steps: int) -> list[float]:
    return [10.0 - step for step in range(steps)]


def test_without_a_target_every_step_is_trained_and_kept() -> None:
    assert run(falling(30), Lengths(most=12, smoothing=3)) == [falling(12)] * 2


@pytest.mark.parametrize("ahead", [1, 4])
def test_all_ranks_stop_at_the_same_step_after_the_target(ahead: int) -> None:
    """Step 7 is the first whose mean of three is 5 or less; what was dispatched by then is still trained."""
    kept = run(falling(40), Lengths(most=30, smoothing=3, until=5.0), ahead=ahead)
    assert kept[0] == kept[1] == falling(len(kept[0]))
    assert 7 < len(kept[0]) <= 7 + 2 * (ahead + 1)


def test_a_target_that_is_never_reached_ends_at_the_limit() -> None:
    assert [len(kept) for kept in run([3.0] * 30, Lengths(most=20, smoothing=3, until=1.0))] == [20, 20]


def test_weights_that_are_no_numbers_are_not_trained_on() -> None:
    losses = [*falling(5), *[math.nan] * 40]
    assert len(run(losses, Lengths(most=40, smoothing=3, until=1.0))[0]) < 15


def test_what_is_kept() -> None:
    kept = arrays([fetched(1, 3.0), fetched(2, 2.0, staleness=1.0)])
    np.testing.assert_array_equal(kept["loss"], [3.0, 2.0])
    np.testing.assert_array_equal(kept["staleness"], [np.nan, 1.0])
    assert list(arrays([fetched(1, 3.0)])) == ["loss"]
