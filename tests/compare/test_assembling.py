"""From results on disk to the document of a comparison, against numbers worked out by hand."""

import csv
import io
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import made

from tfscale.suite import display_compare
from tfscale.suite.analysis.cost import Price
from tfscale.suite.compare import assembling, sides
from tfscale.suite.compare.forms import Comparison, Pair, Pairing
from tfscale.suite.compare.sides import PAIRING, write_pairing
from tfscale.suite.record import Check, Curve, Quantity, Record
from tfscale.suite.runfolder import RunFolder, StoreError
from tfscale.suite.timing.trials import welch_ratio

SLOW, FAST = [100.0, 101.0, 99.0], [120.0, 122.0, 118.0, 121.0]


def compared(tmp_path: Path, a: list[Record], b: list[Record], **more: Any) -> Comparison:
    paths = [made.stored(tmp_path / name, records) for name, records in (("a", a), ("b", b))]
    loaded = [sides.load(path) for path in paths]
    return assembling.results(loaded[0], loaded[1], more.pop("by", ()), more.pop("prices", {}), **more)


def price(value: float) -> Price:
    return Price(value=value, currency="EUR", date="2026-12")


def ratio(quantity: Quantity | None) -> float:
    assert quantity is not None and quantity.value is not None
    return quantity.value


def test_two_systems_with_unequal_trials(tmp_path: Path) -> None:
    fast = made.environment(cpu__model="Processor 9001")
    found = compared(tmp_path, made.trials(made.case(), SLOW), made.trials(made.case(), FAST, facts=fast))
    (row,) = found.rows
    known = welch_ratio(SLOW, FAST)
    assert row.throughput.ratio is not None and row.throughput.ratio.ci95 == pytest.approx(known.ci95)
    assert ratio(row.step_time.ratio) == pytest.approx(1 / ratio(row.throughput.ratio))
    assert (row.verdict, len(row.trials_a), len(row.trials_b), row.needed) == ("faster", 3, 4, None)
    assert found.comparability.things == ("hardware",) and found.comparability.fair
    assert found.b.system["processor"] == "Processor 9001"
    (mean,) = found.means
    assert mean.ratio.ci95 == pytest.approx(known.ci95) and mean.members == ((row.case_a, row.case_b),)
    assert found.money is None and not found.unmatched


def test_no_difference_shown_says_how_many_trials_would_show_it(tmp_path: Path) -> None:
    found = compared(
        tmp_path, made.trials(made.case(), SLOW), made.trials(made.case(), [100.0, 102.0, 98.0]), effect=0.05
    )
    (row,) = found.rows
    assert row.verdict == "no_difference_shown"
    assert row.needed is not None and row.needed.effect == 0.05 and row.needed.trials is not None
    assert display_compare.needed_words(row.needed) == (
        f"no difference shown; seeing 5 % would need {row.needed.trials} trials of each side, "
        "from the spread of 3 and 3 (a rough estimate)"
    )


def test_one_trial_a_side_has_no_interval_and_says_so(tmp_path: Path) -> None:
    found = compared(tmp_path, made.trials(made.case(), [100.0]), made.trials(made.case(), FAST))
    (row,) = found.rows
    assert (row.verdict, row.throughput.ratio and row.throughput.ratio.ci95) == ("no_interval", None)
    assert "1 of A, 4 of B; an interval needs 2" in (row.reason or "")
    assert row.needed is not None and row.needed.trials is None and "not known from 1" in row.needed.reason
    assert found.means[0].verdict == "no_interval"


def test_an_invalid_side_and_other_samples_are_not_compared(tmp_path: Path) -> None:
    wrong = Check(name="self_check", status="INVALID", detail="gradients were not averaged")
    two = made.case(devices=4)
    found = compared(
        tmp_path,
        [*made.trials(made.case(), SLOW), *made.trials(two, SLOW)],
        [*made.trials(made.case(), FAST, checks=(wrong,)), *made.trials(two, FAST, sample="sequence")],
    )
    invalid, other = found.rows
    assert (invalid.verdict, invalid.reason) == ("not_compared", "B is INVALID: its number is wrong")
    assert invalid.throughput.ratio is not None and invalid.throughput.ratio.value is None
    assert invalid.doubts == ("B: self_check: gradients were not averaged (trial 0, 1, 2, 3)",)
    assert (other.verdict, other.reason) == ("not_compared", "A is in images/s, B in sequences/s")
    assert found.means == ()


def test_kinds_are_never_mixed(tmp_path: Path) -> None:
    found = compared(tmp_path, made.trials(made.case(), SLOW), made.trials(made.case(), FAST, kind="simulated"))
    assert found.rows[0].reason == "A is measured, B is simulated"
    both = compared(
        tmp_path / "s",
        made.trials(made.case(), SLOW, kind="simulated"),
        made.trials(made.case(), FAST, kind="simulated"),
    )
    assert both.rows[0].throughput.ratio is not None and both.rows[0].throughput.ratio.kind == "simulated"


def test_geometric_means_hold_their_members_and_settings_apart(tmp_path: Path) -> None:
    none, pack, fp16 = made.case(), made.case(exchange="pack"), made.case(exchange="fp16")
    records = [*made.trials(none, SLOW), *made.trials(pack, FAST), *made.trials(fp16, [50.0, 51.0, 49.0])]
    run = sides.load(made.stored(tmp_path, records))
    found = assembling.results(run, run, ["exchange"], {})
    assert [(mean.of, mean.verdict) for mean in found.means] == [
        ("exchange none -> pack", "faster"),
        ("exchange none -> fp16", "slower"),
    ]
    assert (found.a.name, found.b.name) == ("A", "B")
    one = assembling.results(run, sides.load(run.path, "exchange=pack|none"), ["exchange"], {})
    assert [row.axes["exchange"] for row in one.rows] == [("none", "pack"), ("none", "fp16")]


def test_a_mean_over_cases_is_the_root_of_the_product(tmp_path: Path) -> None:
    two = made.case(devices=4)
    a = [*made.trials(made.case(), [100.0, 100.0]), *made.trials(two, [200.0, 200.0])]
    b = [*made.trials(made.case(), [110.0, 110.0]), *made.trials(two, [260.0, 260.0])]
    found = compared(tmp_path, a, b)
    assert ratio(found.means[0].ratio) == pytest.approx(math.sqrt(1.1 * 1.3))
    assert len(found.means[0].members) == 2


def test_cost_by_hand_and_where_it_turns(tmp_path: Path) -> None:
    """A: 2 devices at 2 EUR, 100/s: 4 / 0.36 = 11.11 EUR. B: 2 at 3 EUR, 120/s: 6 / 0.432 = 13.89 EUR; ratio 1.25."""
    prices = {"A": price(2), "B": price(3)}
    found = compared(
        tmp_path, made.trials(made.case(), [100.0, 100.0]), made.trials(made.case(), [120.0, 120.0]), prices=prices
    )
    cost = found.rows[0].cost
    assert (ratio(cost.a), ratio(cost.b), ratio(cost.ratio)) == pytest.approx((11.1111, 13.8889, 1.25), rel=1e-4)
    assert found.money is not None and ratio(found.money.ratio) == pytest.approx(1.25)
    assert found.money.break_even == pytest.approx(1.2), "B is 1.2 times as fast on as many devices"
    assert found.money.rank_changes is True
    assert {(one.change_a, one.change_b): one.ratio for one in found.money.swayed}[0.2, -0.2] == pytest.approx(
        1.25 / 1.5
    )
    only_a = compared(
        tmp_path / "2", made.trials(made.case(), SLOW), made.trials(made.case(), FAST), prices={"A": price(2)}
    )
    assert only_a.money is not None and only_a.money.ratio.value is None
    assert "no price of B" in (only_a.money.ratio.reason or "")


def test_energy_is_compared_within_one_boundary_only(tmp_path: Path) -> None:
    case = made.case()
    found = compared(
        tmp_path,
        [made.record(case, 100, trial, joules=joules) for trial, joules in enumerate((2.0, 2.1, 1.9))],
        [made.record(case, 100, trial, joules=joules) for trial, joules in enumerate((1.0, 1.1, 0.9))],
    )
    assert ratio(found.rows[0].energy.ratio) == pytest.approx((1.0 * 1.1 * 0.9 / (2.0 * 2.1 * 1.9)) ** (1 / 3))
    other = compared(
        tmp_path / "2",
        [made.record(case, 100, joules=2.0)],
        [made.record(case, 100, joules=1.0, boundary="sum over 1 processor packages (RAPL), counter")],
    )
    energy = other.rows[0].energy.ratio
    assert energy is not None and energy.value is None and "A is the sum over 2 devices" in (energy.reason or "")


def test_memory_headroom_is_of_the_device_or_of_what_the_container_may_use(tmp_path: Path) -> None:
    """Host: 2 ranks of 10 GB in 100 GB leave 80 %, in a container of 40 GB 50 %. Card: 60 GB of 80 leave 25 %."""
    case = made.case()
    small = made.environment(cgroup__memory_bytes=40_000_000_000)
    found = compared(tmp_path, made.trials(case, SLOW), made.trials(case, SLOW, facts=small))
    left = found.rows[0].memory_headroom
    assert (left.a.value, left.b.value, left.ratio) == (pytest.approx(0.8), pytest.approx(0.5), None)
    card = made.record(case, 100, facts=made.environment(gpus=made.gpus("H200", 2)))
    peak = Quantity(value=60e9, unit="bytes", kind="measured", statistic="maximum over ranks")
    card = card.model_copy(update={"quantities": {**card.quantities, "memory_peak_device": peak}})
    other = compared(tmp_path / "2", [card], [card])
    assert other.rows[0].memory_headroom.a.value == pytest.approx(0.25)
    assert "of the device" in other.rows[0].memory_headroom.a.statistic


def curve(case_id: str, seed: int, reached: int | None, run: Path) -> None:
    made_curve = Curve(
        id=f"c{seed}", run=run.name, created="2026-12-01", case_id=f"{case_id}-{seed}", case={}, seed=seed,
        stands_for=(case_id,), base=None, target=1.0, target_steps=300, smoothing=20, limit=900, steps=reached or 900,
        reached=reached, smoothed=1.0, files={},
    )  # fmt: skip
    folder = RunFolder(run).curve(made_curve.case_id)
    folder.mkdir(parents=True)
    RunFolder(run).write_curve(made_curve)


def test_steps_to_the_target_loss_stand_beside_the_speed(tmp_path: Path) -> None:
    exact, lossy = {"exchange_exact": True}, {"exchange_exact": False}
    none, fp16 = made.case(), made.case(exchange="fp16")
    path = made.stored(tmp_path, [*made.trials(none, SLOW, effective=exact), *made.trials(fp16, FAST, effective=lossy)])
    for seed, (one, other) in enumerate(((300, 330), (290, 310))):
        curve(none.id, seed, one, path)
        curve(fp16.id, seed, other, path)
    run = sides.load(path)
    found = assembling.results(run, run, ["exchange"], {})
    assert found.comparability.fair, "trainings are on record"
    steps = found.rows[0].steps_to_target
    assert ratio(steps.ratio) == pytest.approx(math.sqrt(330 * 310 / (300 * 290)))
    curve(fp16.id, 2, None, path)
    late = assembling.results(sides.load(path), sides.load(path), ["exchange"], {}).rows[0].steps_to_target
    assert late.b.value is None and "seed 2 did not come to it in 900 steps" in (late.b.reason or "")


def test_a_run_of_pairs_is_read_with_its_pairing(tmp_path: Path) -> None:
    a, b = made.case(), made.case(exchange="pack")
    drift = [1.0, 0.8, 0.6, 0.5]
    records = [*made.trials(a, [100 * d for d in drift]), *made.trials(b, [110 * d for d in drift])]
    path = made.stored(tmp_path, records)
    turns = tuple(Pair(first="A", case_a=a.id, trial_a=n, case_b=b.id, trial_b=n) for n in range(4))
    write_pairing(path, Pairing(a="plain", b="packed", by=("exchange",), pairs=turns))
    found = assembling.of_pairs(sides.load(tmp_path), {})
    (row,) = found.rows
    assert row.paired and row.throughput.ratio is not None
    assert row.throughput.ratio.ci95 == pytest.approx((1.1, 1.1)), "the drift of half is in both alike"
    assert (found.a.name, found.b.name, row.throughput.ratio.n_trials) == ("plain", "packed", 4)
    (path / PAIRING).write_text("{")
    damaged = sides.load(tmp_path)
    assert damaged.pairing is None and any("no pairing can be read" in note for note in damaged.notes)


def test_what_stands_alone_is_said(tmp_path: Path) -> None:
    found = compared(
        tmp_path,
        [*made.trials(made.case(), SLOW), *made.trials(made.case(devices=4), SLOW)],
        made.trials(made.case(), FAST),
    )
    (one,) = found.unmatched
    assert (one.side, one.case_id, one.reason) == ("A", made.case(devices=4).id, "the other side has no such case")


def test_the_newest_run_of_a_results_folder_is_taken_and_said(tmp_path: Path) -> None:
    made.stored(tmp_path, made.trials(made.case(), SLOW))
    newest = made.stored(tmp_path, made.trials(made.case(), FAST))
    loaded = sides.load(tmp_path)
    assert loaded.path == newest and loaded.notes == [
        f"{tmp_path} holds 2 runs; the newest, {newest.name}, is compared"
    ]
    assert len(sides.load(newest / made.case().id / "1" / "record.json").records) == 1
    with pytest.raises(StoreError, match="no record in"):
        sides.load(tmp_path.parent / tmp_path.name / newest.name / "suite.yaml")
    with pytest.raises(ValueError, match="matches no case"):
        sides.load(newest, "devices=7")


def test_the_document_survives_json_and_becomes_a_table(tmp_path: Path) -> None:
    found = compared(tmp_path, made.trials(made.case(), SLOW), made.trials(made.case(), FAST), prices={"A": price(1)})
    assert Comparison.model_validate(json.loads(found.model_dump_json(by_alias=True))) == found
    (line,) = csv.DictReader(io.StringIO(display_compare.as_csv(found)))
    assert float(line["throughput_ratio_value"]) == pytest.approx(ratio(found.rows[0].throughput.ratio))
    assert (line["verdict"], line["throughput_a_unit"], line["trials_b"]) == ("faster", "images/s", "4")
    assert line["energy_a_value"] == "" and line["cost_a_unit"] == "EUR/million images"
