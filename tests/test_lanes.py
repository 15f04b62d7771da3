"""Cases side by side: parts of a machine, who met whom, and an end that all lanes come to."""

import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "toy"))
import fake_launcher as fake
import toy_bench as toy

from tfscale.suite.lanes import Neighbours, TooSmallError, devices_of, in_lanes, places, split
from tfscale.suite.launch import Bench
from tfscale.suite.plan import RankPlan
from tfscale.suite.planner import Place
from tfscale.suite.spec import Case


def test_parts_share_nothing() -> None:
    one, two = places(Place([0, 1, 2, 3, 4], 1), 2, None)
    assert (one.host_cores, two.host_cores) == ([0, 1], [2, 3])
    assert devices_of(one) == 2
    cards = places(Place(list(range(16)), 16, "gpu", ["a", "b", "c", "d"]), 2, None)
    assert [part.visible_gpus for part in cards] == [["a", "b"], ["c", "d"]]
    assert [part.cores_per_device for part in cards] == [4, 4]
    assert devices_of(cards[0]) == 2


def test_a_device_of_one_lane_fits_it() -> None:
    (part, _) = places(Place([0, 1, 2, 3], 4), 2, None)
    assert (part.cores_per_device, devices_of(part)) == (2, 1)


@pytest.mark.parametrize(
    ("place", "lanes", "cores", "words"),
    [
        (Place([0, 1], 1), 3, None, "2 cores, which is less than one for each"),
        (Place([0, 1, 2, 3], 1, "gpu", ["a"]), 2, None, "1 GPUs"),
        (Place([0, 1, 2, 3], 3), 2, 3, "less than cluster.cores_per_device 3"),
    ],
)
def test_a_machine_that_is_too_small_is_refused(place: Place, lanes: int, cores: int | None, words: str) -> None:
    with pytest.raises(TooSmallError, match=words):
        places(place, lanes, cores)


def test_a_case_that_needs_more_than_a_lane_runs_alone() -> None:
    cases = [toy.case(devices=n) for n in (1, 2, 3)]
    assert split(cases, 2) == (cases[:2], cases[2:])


def test_neighbours_are_those_whose_launches_overlap() -> None:
    known = Neighbours()
    with known.running("a") as met_a:
        with known.running("b") as met_b:
            pass
        with known.running("c") as met_c:
            pass
    with known.running("d") as met_d:
        pass
    assert (met_a, met_b, met_c, met_d) == ({"b", "c"}, {"a"}, {"a"}, set())


def test_every_case_runs_once_and_lanes_run_at_once() -> None:
    cases, done = toy.numbered(["good"] * 20), list[str]()
    together = threading.Barrier(2, timeout=10)

    def lane(case: Case) -> bool:
        together.wait()
        done.append(case.id)
        return True

    assert in_lanes(cases, [lane, lane])
    assert sorted(done) == sorted(case.id for case in cases)


def test_a_lane_that_ends_ends_the_others_after_their_case() -> None:
    cases, done = toy.numbered(["good"] * 9), list[str]()

    def ends(case: Case) -> bool:
        return False

    def slow(case: Case) -> bool:
        time.sleep(0.05)
        done.append(case.id)
        return True

    assert not in_lanes(cases, [ends, slow])
    assert len(done) <= 1


def test_an_error_of_a_lane_is_raised_when_all_have_stopped() -> None:
    running = threading.Event()

    def fails(case: Case) -> bool:
        running.wait(10)
        raise OSError("gone")

    def good(case: Case) -> bool:
        running.set()
        time.sleep(0.05)
        return True

    with pytest.raises(OSError, match="gone"):
        in_lanes(toy.numbered(["good"] * 50), [fails, good])


def test_a_case_with_a_neighbour_is_suspect_and_names_it_and_one_alone_is_not(tmp_path: Path) -> None:
    cases = [*toy.numbered(["good", "good"]), toy.case(devices=3)]
    together = threading.Barrier(4, timeout=20)

    def act(plan: RankPlan) -> int | None:
        if plan.case.devices == 2:
            together.wait()  # all ranks of both cases
        return fake.good(plan)

    class Together(fake.FakeLauncher):
        """Its ranks act at the same time, as processes do."""

        def start(self, plans):  # type: ignore[no-untyped-def]
            ranks = [threading.Thread(target=act, args=(plan,)) for plan in plans]
            for rank in ranks:
                rank.start()
            for rank in ranks:
                rank.join()
            self.jobs.append(fake.FakeJob([0] * len(plans)))
            return self.jobs[-1]

    place = Place([0, 1], 1)
    lanes = [Bench(Together(), place, toy.QUICK) for _ in range(2)]
    document = toy.sweep(cases, tmp_path, fake.FakeLauncher(), lanes=lanes).run()
    assert not document.failed and not document.missing
    checks = {
        record.case_id: [check for check in record.validity.checks if check.name == "neighbours"]
        for record in document.records
    }
    for case, other in ((cases[0], cases[1]), (cases[1], cases[0])):
        (check,) = checks[case.id]
        assert check.status == "SUSPECT" and other.title in check.detail
    assert checks[cases[2].id] == []
