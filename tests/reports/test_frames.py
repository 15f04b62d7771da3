"""Frames hold what the documents hold, row for row; a number that does not say its kind is refused."""

import builder
import pytest

from tfscale.reports import efficiencies, frames
from tfscale.suite.analysis.scaling import MixedCurveError, require_comparable
from tfscale.suite.caseresult import case_result
from tfscale.suite.record import Check, Quantity, Retry, Run
from tfscale.suite.spec import Case

ONE = Case(workload="bert", preset="tiny", per_replica_batch=8)
TWO = Case(workload="bert", preset="tiny", per_replica_batch=8, strategy="mirrored", devices=2)
APART = Case(workload="bert", preset="tiny", per_replica_batch=8, strategy="independent", devices=2)


def run_of(*given: tuple[Case, float]) -> Run:
    records = [builder.record(case, step_s=seconds) for case, seconds in given]
    return builder.run_of(tuple(case_result([record]) for record in records), tuple(records))


def test_one_row_a_case() -> None:
    strong = Case(workload="vit", preset="micro", strategy="mirrored", devices=2, global_batch=32, recompute=True)
    frame = frames.cases(run_of((ONE, 0.08), (strong, 0.1)))
    assert frame["case_id"].tolist() == [ONE.id, strong.id]
    assert frame["scaling"].tolist() == ["weak", "strong"]
    assert frame["batch"].tolist() == [8, 32]
    assert frame["micro_batch"].tolist() == [8, 16]
    assert frame["other"].tolist() == ["", "recompute=yes"]
    assert frame["status"].tolist() == ["VALID", "VALID"]


def test_quantities_keep_value_interval_unit_and_kind() -> None:
    frame = frames.quantities(run_of((ONE, 0.08))).set_index("name")
    assert frame.loc["step_time", "value"] == 0.08
    assert frame.loc["step_time", "low"] == pytest.approx(0.08 * 0.988)
    assert frame.loc["throughput", "value"] == pytest.approx(100.0)
    assert frame.loc["throughput", "unit"] == "sequences/s"
    assert set(frame["kind"]) == {"simulated"}
    assert frame["value"].isna().sum() == 1
    assert frame.loc["memory_peak_device", "reason"] == "a CPU device has no memory of its own"


def test_a_line_says_how_gradients_travel() -> None:
    case = TWO.model_copy(update={"exchange": "fp16", "collective": "ring"})
    assert frames.line_of(TWO) == "mirrored"
    assert frames.line_of(case) == "mirrored, exchange fp16, collective ring"
    auto = TWO.model_copy(update={"exchange": "auto"})
    record = builder.record(auto)
    chose = record.model_copy(update={"effective": {**record.effective, "resolved": "priority"}})
    assert frames.line_of(auto, chose) == "mirrored, exchange auto = priority"
    assert frames.line_of(auto, record) == "mirrored, exchange auto"


def test_curves_join_equal_choices_only() -> None:
    def point(chosen: str) -> efficiencies.Point:
        case = TWO.model_copy(update={"exchange": "auto"})
        record = builder.record(case)
        record = record.model_copy(update={"effective": {**record.effective, "resolved": chosen}})
        (made,) = efficiencies.points_of(builder.run_of((case_result([record]),), (record,)))
        return made

    one, same, other = (point(name).point for name in ("none", "none", "priority"))
    require_comparable(one, same, mode="weak")
    with pytest.raises(MixedCurveError, match="priority"):
        require_comparable(one, other, mode="weak")


def test_effective_math_is_said_where_it_is_not_what_was_asked_for() -> None:
    record = builder.record(ONE)
    for math, said in (("float32", ""), ("tf32", "computed as tf32"), (None, "")):
        assert frames.math_of(ONE, record.model_copy(update={"effective": {"math": math}})) == said


def test_trials_phases_failed_and_pruned() -> None:
    record = builder.record(ONE, step_s=0.08)
    failed = (builder.failure(TWO, "oom", "out of memory", "", None),)
    run = builder.run_of((case_result([record]),), (record,), failed, builder.PRUNED)
    trial = frames.trials(run).iloc[0]
    assert (trial["class"], trial["start"], trial["stop"]) == ("warm-up", 6, 60)
    phases = frames.phases(run).set_index("phase")["seconds"]
    assert phases["import"] == 6.8
    assert "compile" not in phases
    assert frames.failed(run)["class"].tolist() == ["oom"]
    assert frames.failed(run)["rank"].isna().all()
    assert frames.pruned(run)["reason"].nunique() == 2


def test_launches_that_went_again_are_kept_apart_from_those_that_failed() -> None:
    retry = Retry(classification="lost_rank", reason="ended by SIGKILL", rank=1)
    record = builder.record(ONE).model_copy(update={"retries": (retry,)})
    failure = builder.failure(TWO, "join_timeout", "late", "", 0).model_copy(update={"retries": (retry, retry)})
    found = frames.retried(builder.run_of((case_result([record]),), (record,), (failure,)))
    assert found["ended"].tolist() == ["result", "failed", "failed"]
    assert set(found["class"]) == {"lost_rank"} and set(found["rank"]) == {1}


def test_an_empty_run_has_empty_frames() -> None:
    run = builder.run_of()
    every = (
        frames.cases,
        frames.quantities,
        frames.trials,
        frames.phases,
        frames.failed,
        frames.retried,
        frames.pruned,
    )
    for frame in every:
        assert frame(run).empty
    assert efficiencies.efficiencies(run).empty


@pytest.mark.parametrize("kind", [None, "guessed"])
def test_a_quantity_without_kind_is_refused(kind: str | None) -> None:
    record = builder.record(ONE)
    fields = record.quantities["throughput"].model_dump() | {"kind": kind}
    broken = Quantity.model_construct(**fields)
    result = case_result([record])
    result = result.model_copy(update={"quantities": {**result.quantities, "throughput": broken}})
    with pytest.raises(frames.KindError, match=f"throughput of case {ONE.id}"):
        frames.quantities(builder.run_of((result,), (record,)))


def test_efficiency_against_both_baselines_by_hand() -> None:
    """One device 100/s, two apart 160/s, two mirrored 120/s: 60 % of one device, 75 % of independent."""
    run = run_of((ONE, 0.08), (APART, 0.1), (TWO, 2 / 15))
    rows = efficiencies.efficiencies(run).set_index(["case_id", "baseline"])
    against_one = rows.loc[(TWO.id, "one_device")]
    assert against_one["value"] == pytest.approx(0.6)
    assert against_one["low"] < 0.6 < against_one["high"]
    assert against_one["scope"] == "within_trial"
    assert rows.loc[(TWO.id, "independent"), "value"] == pytest.approx(0.75)
    assert rows.loc[(APART.id, "one_device"), "value"] == pytest.approx(0.8)
    assert rows.loc[(ONE.id, "one_device"), "reason"] == efficiencies.ITSELF
    assert rows.loc[(ONE.id, "independent"), "reason"] == "one device has no other replica beside it"


def test_no_efficiency_across_settings_or_from_invalid_cases() -> None:
    mixed = TWO.model_copy(update={"precision": "mixed_bfloat16"})
    rows = efficiencies.efficiencies(run_of((ONE, 0.08), (mixed, 0.08))).set_index(["case_id", "baseline"])
    found = rows.loc[(mixed.id, "one_device")]
    assert found.isna()["value"]
    assert "precision" in found["reason"]
    bad = builder.record(TWO, checks=(Check(name="self_check", status="INVALID", detail="no exchange"),))
    good = builder.record(ONE)
    run = builder.run_of((case_result([good]), case_result([bad])), (good, bad))
    rows = efficiencies.efficiencies(run).set_index(["case_id", "baseline"])
    assert rows.loc[(TWO.id, "one_device"), "reason"] == "this case is INVALID"


def test_no_efficiency_across_kinds() -> None:
    good, other = builder.record(ONE, kind="measured"), builder.record(TWO, kind="simulated")
    run = builder.run_of((case_result([good]), case_result([other])), (good, other))
    row = efficiencies.efficiencies(run).set_index(["case_id", "baseline"]).loc[(TWO.id, "one_device")]
    assert row.isna()["value"]
    assert "measured" in row["reason"]
    assert "simulated" in row["reason"]
