"""Trainings to a target loss on a launcher without processes: what is stored, skipped, failed and gone on with."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "toy"))
import fake_launcher as fake
import toy_bench as toy

from tfscale.suite import store
from tfscale.suite.plan import RankPlan
from tfscale.suite.rankfiles import LOSSES, read_arrays
from tfscale.suite.record import Run
from tfscale.suite.spec import TargetLoss

WANTED = TargetLoss(steps=30, limit=90, seeds=2, smoothing=5)


def sweep(
    results: Path, act: fake.Act = fake.good, exchanges: tuple[str, ...] = ("none", "fp16"), **options: Any
) -> Any:
    cases = [toy.case(exchange=exchange) for exchange in exchanges]
    return toy.sweep(cases, results, fake.FakeLauncher(act), target_loss=WANTED, **options)


def run(results: Path, act: fake.Act = fake.good, **options: Any) -> Run:
    finished: Run = sweep(results, act, **options).run()
    return finished


def at_speed(**steps: float) -> fake.Act:
    """Losses that fall as exp(-t / tau), tau by exchange."""

    def act(plan: RankPlan) -> int | None:
        if plan.pass_ != "losses":
            return fake.good(plan)
        return fake.trains(plan, lambda step: float(np.exp(-step / steps[plan.case.exchange])))

    return act


def test_each_exchange_is_held_against_none_with_the_same_seed(tmp_path: Path) -> None:
    finished = run(tmp_path, at_speed(none=100, fp16=200))
    assert [(curve.case["exchange"], curve.seed) for curve in finished.curves] == [
        ("none", 0), ("fp16", 0), ("none", 1), ("fp16", 1),
    ]  # fmt: skip
    base, lossy = finished.curves[:2]
    assert (base.reached, base.steps, base.base) == (30, 30, None)
    assert lossy.base == base.case_id and lossy.target == base.target == pytest.approx(
        np.exp(-np.arange(26, 31) / 100).mean()
    )
    # An exponential half as fast, from the mean of steps 26 to 30: twice the steps, less what the mean's width shifts.
    assert lossy.reached == 58
    assert lossy.stands_for == (toy.case(exchange="fp16").id,)
    folder = tmp_path / finished.run / "curves" / lossy.case_id
    assert read_arrays(folder / lossy.files["losses"])["loss"].size == lossy.steps
    assert not finished.missing and not finished.failed
    assert store.load_run(tmp_path).run == finished


def test_what_is_not_reached_is_said_so(tmp_path: Path) -> None:
    finished = run(tmp_path, at_speed(none=100, fp16=1000))
    assert [(curve.reached, curve.steps) for curve in finished.curves] == [(30, 30), (None, 90)] * 2


def test_a_failed_training_is_listed_and_those_that_need_it_are_not_started(tmp_path: Path) -> None:
    def act(plan: RankPlan) -> int | None:
        failing = plan.pass_ == "losses" and plan.case.exchange == "none" and plan.case.seed == 0
        return fake.fails("ValueError: no")(plan) if failing else fake.good(plan)

    finished = run(tmp_path, act)
    assert [curve.seed for curve in finished.curves] == [1, 1]
    reasons = [failure.reason for failure in finished.failed]
    assert reasons == [
        "training to a target loss with seed 0: ValueError: no",
        "training to a target loss with seed 0: the training with `none` that gives its target failed",
    ]
    assert not finished.missing


def test_resume_trains_what_is_missing_or_failed(tmp_path: Path) -> None:
    def act(plan: RankPlan) -> int | None:
        failing = plan.pass_ == "losses" and plan.case.exchange == "fp16" and plan.case.seed == 1
        return fake.fails("ValueError: no")(plan) if failing else fake.good(plan)

    first = run(tmp_path, act)
    assert len(first.curves) == 3 and len(first.failed) == 1
    again = sweep(tmp_path, folder=toy.latest(tmp_path))
    finished = again.run()
    assert [plan.pass_ for plan in again.bench.launcher.launched] == ["losses"]
    assert len(finished.curves) == 4 and not finished.failed


def test_trainings_that_an_interrupt_left_out_are_missing(tmp_path: Path) -> None:
    made = sweep(tmp_path, exchanges=("none", "fp16"))
    made.notify = lambda notice: made.interrupt.request() if notice.kind == "training_done" else None
    finished = made.run()
    assert len(finished.curves) == 1
    assert len(finished.missing) == 3


def test_a_half_written_curve_is_reported_and_skipped(tmp_path: Path) -> None:
    finished = run(tmp_path)
    path = tmp_path / finished.run / "curves" / finished.curves[0].case_id / "curve.json"
    path.write_text(path.read_text()[:100])
    loaded = store.load_run(tmp_path)
    assert len(loaded.run.curves) == 3
    assert any("curve.json" in warning for warning in loaded.warnings)
    assert LOSSES not in " ".join(loaded.warnings)
