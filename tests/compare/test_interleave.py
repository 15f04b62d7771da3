"""Two settings in turns, on a launcher without processes: the order of launches, what is kept, and what is refused."""

import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import fake_launcher as fake
import toy_bench as toy
import toy_worker

from tfscale.suite import suitefile
from tfscale.suite.compare import assembling, contest, sides
from tfscale.suite.compare.contest import pairs
from tfscale.suite.compare.forms import Pairing
from tfscale.suite.compare.interleave import PairedSweep
from tfscale.suite.launch import Bench
from tfscale.suite.plan import RankPlan
from tfscale.suite.rankfiles import write_arrays
from tfscale.suite.runfolder import RunFolder
from tfscale.suite.spec import Case, Profile

A, B = toy.numbered(["good", "good"])


def sweep(
    results: Path, opponents: list[tuple[Case, Case]], act: fake.Act, trials: int = 4, profile: bool = False
) -> PairedSweep:
    ranks = fake.FakeLauncher(act)
    measure = toy.QUICK.model_copy(update={"trials": trials})
    return PairedSweep(
        suite="toy",
        cases=list({case.id: case for both in opponents for case in both}.values()),
        folder=RunFolder.create(results, "name: toy\n", {"host": "here"}),
        bench=Bench(launcher=ranks, place=toy.PLACE, measure=measure, profile=Profile() if profile else None),
        reproduce=lambda case: "tfscale run suite.yaml",
        environment={"host": "here"},
        pairing=Pairing(a="A", b="B", by=(), pairs=tuple(pairs(opponents, trials))),
    )


def slowing(order: list[tuple[str, int]]) -> fake.Act:
    """Ranks of a machine on which every launch is 10 % slower than the one before; B's step takes twice A's."""

    def act(plan: RankPlan) -> int:
        fake.good(plan)
        if plan.rank == 0:
            order.append(("A" if plan.case_id == A.id else "B", plan.trial))
        seconds = 0.01 * 1.1 ** len(order) * (2 if plan.case_id == B.id else 1)
        series = toy_worker.series(plan.case.step_batch, step_s=seconds)
        write_arrays(Path(plan.directory) / "blocks.npz", series.arrays())
        return 0

    return act


def test_launches_go_a_b_b_a_and_the_drift_is_in_both_alike(tmp_path: Path) -> None:
    order: list[tuple[str, int]] = []
    made = sweep(tmp_path, [(A, B)], slowing(order))
    run = made.run()
    assert order == [(side, turn) for turn, both in enumerate(("AB", "BA", "AB", "BA")) for side in both]
    assert len(run.records) == 8 and not run.missing
    (row,) = assembling.of_pairs(sides.load(tmp_path), {}).rows
    ratio = row.throughput.ratio
    assert ratio is not None and ratio.value == pytest.approx(0.5, rel=0.01), "the drift cancels over A B B A"
    assert ratio.ci95 is not None and ratio.ci95[0] < 0.5 < ratio.ci95[1]


def test_a_failed_launch_costs_its_pair_and_one_that_recurs_ends_the_turns(tmp_path: Path) -> None:
    def lost(plan: RankPlan) -> int | None:
        failing = plan.case_id == B.id and plan.trial == 1
        return fake.fails("hung")(plan) if failing else fake.good(plan)

    sweep(tmp_path / "one", [(A, B)], lost).run()
    found = assembling.of_pairs(sides.load(tmp_path / "one"), {})
    assert len(found.rows[0].trials_a) == 3 and "1 of 4 pairs lack a launch" in " ".join(found.notes)

    ranks: list[str] = []

    def broken(plan: RankPlan) -> int | None:
        ranks.append(plan.case_id)
        return fake.fails("error")(plan) if plan.case_id == B.id else fake.good(plan)

    run = sweep(tmp_path / "two", [(A, B)], broken).run()
    assert ranks.count(B.id) <= B.devices and len(run.failed) == 1
    with pytest.raises(ValueError, match="no pair has both launches"):
        assembling.of_pairs(sides.load(tmp_path / "two"), {})


def test_a_case_against_itself_and_profiles(tmp_path: Path) -> None:
    run = sweep(tmp_path, [(A, A)], fake.good, trials=2, profile=True).run()
    assert [record.trial for record in run.records] == [0, 1, 2, 3]
    assert "profiler_retries" in run.records[0].counts
    found = assembling.of_pairs(sides.load(tmp_path), {})
    assert found.comparability.things == () and found.comparability.fair
    assert [name.rpartition("/")[2] for name in found.rows[0].trials_a] == ["0", "2"]


def test_pairs_are_made_even_and_numbered_within_each_case() -> None:
    third = toy.case("good", env={"NCCL_TEST": "third"})
    made = pairs([(A, B), (A, third)], 3)
    assert [pair.first for pair in made] == ["A", "B", "A", "B"] * 2
    assert [pair.trial_a for pair in made] == list(range(8)), "the second contest has launches of A of its own"
    assert [pair.trial_b for pair in made] == [0, 1, 2, 3] * 2


SUITE = """
name: {name}
matrix:
  workload: [vit]
  preset: [micro]
  per_replica_batch: [8]
  precision: [{precision}]
  steps_per_call: [{calls}]
measure: {{trials: 3, budget_s: {budget}}}
"""


def suite(folder: Path, name: str, precision: str = "float32", calls: str = "1", budget: int = 5) -> str:
    path = folder / f"{name}.yaml"
    path.write_text(SUITE.format(name=name, precision=precision, calls=calls, budget=budget))
    return str(path)


def prepare(*names: str, by: tuple[str, ...] = ()) -> contest.Contest:
    return contest.prepare(names, by, expression=None, trials=None, launcher=None)


def test_one_suite_by_the_axes_that_are_named(tmp_path: Path) -> None:
    made = prepare(suite(tmp_path, "s", "float32, mixed_bfloat16", "1, 10"), by=("precision",))
    assert [(a.precision, b.precision, a.steps_per_call == b.steps_per_call) for a, b in made.opponents] == [
        ("float32", "mixed_bfloat16", True)
    ] * 2
    assert made.names == ("float32", "mixed_bfloat16") and len(made.pairing.pairs) == 8
    two = prepare(suite(tmp_path, "two", "float32, mixed_bfloat16"))
    assert len(two.opponents) == 1, "two cases need no naming"
    alone = prepare(suite(tmp_path, "one"))
    assert alone.opponents[0][0] == alone.opponents[0][1] and alone.names == ("A", "B")
    twice = prepare(*[suite(tmp_path, "s", "float32", "1, 10")] * 2)
    assert [a.id == b.id for a, b in twice.opponents] == [True, True]


def test_two_suites_become_one_that_can_be_run_again(tmp_path: Path) -> None:
    made = prepare(suite(tmp_path, "plain"), suite(tmp_path, "half", "mixed_bfloat16"))
    assert (made.names, len(made.opponents)) == (("plain", "half"), 1)
    again = suitefile.build(suitefile.parse(made.prepared.text, "joined.yaml"))
    assert [case.id for case in again.cases] == [case.id for case in made.prepared.suite.cases]
    assert again.measure == made.prepared.suite.measure and again.name == "plain-vs-half"
    assert yaml.safe_load(made.prepared.text)["measure"] == {"budget_s": 5.0}


@pytest.mark.parametrize(
    ("one", "other", "by", "words"),
    [
        (
            {"precision": "float32, mixed_bfloat16", "calls": "1, 10"},
            None,
            (),
            "differ in precision, steps_per_call: two are",
        ),
        ({"precision": "float32, mixed_bfloat16"}, None, ("xla",), "no two differ in exactly xla"),
        ({}, None, ("hardware",), "both settings run on this machine"),
        ({}, {"budget": 6}, (), "must be measured alike: measure is"),
        ({}, {"calls": "1, 10"}, (), "the n-th stands against the n-th"),
        ({}, {"precision": "mixed_bfloat16"}, ("xla",), "differ in exactly xla"),
    ],
)
def test_what_cannot_stand_against_each_other_is_refused(
    tmp_path: Path, one: dict[str, str], other: dict[str, str] | None, by: tuple[str, ...], words: str
) -> None:
    names = [suite(tmp_path, "one", **one), *([suite(tmp_path, "other", **other)] if other is not None else [])]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=words):
        prepare(*names, by=by)
