"""Where a step goes: bars and waterfalls of profiled cases, by hand."""

import builder
import pytest

from tfscale.reports import breakdowns, efficiencies
from tfscale.reports.page import scaling_report
from tfscale.suite.caseresult import case_result
from tfscale.suite.profiling.breakdown import PARTS
from tfscale.suite.record import Record, Run
from tfscale.suite.spec import Case

ONE = Case(workload="bert", preset="tiny", per_replica_batch=8)
TWO = Case(workload="bert", preset="tiny", per_replica_batch=8, strategy="mirrored", devices=2)
MS = 10**9


def profiled(case: Case, step_s: float, *parts: int) -> Record:
    """A record of `step_s` a step whose profiled parts are these, in milliseconds."""
    span = sum(parts) * MS
    told = {
        "span_ps": span,
        "parts": dict(zip(PARTS, (part * MS for part in parts), strict=True)),
        "exposed_wait_ps": None,
        "step_source": "markers",
        "profiled_over_timed": span / step_s / 1e12,
        "distorted": span / step_s / 1e12 > 1.1,
        "unclassified_share": 0.0,
    }
    return builder.record(case, step_s=step_s).model_copy(update={"breakdown": told})


def run(*records: Record) -> Run:
    return builder.run_of(tuple(case_result([record]) for record in records), records)


def test_a_waterfall_sums_to_everything() -> None:
    """80 ms on one device, 100 on two: 80 %, 15 points communication, 5 compute."""
    made = run(profiled(ONE, 0.080, 80, 0, 0, 0, 0, 0), profiled(TWO, 0.100, 85, 15, 0, 0, 0, 0))
    (fall,) = breakdowns.falls(made, efficiencies.efficiencies(made))
    assert (fall.case_id, fall.baseline, fall.efficiency) == (TWO.id, "one device", "80.0%")
    assert fall.rows == (("exposed communication", "+15.0"), ("compute", "+5.0"))


def test_bars_fill_the_step_and_say_when_the_profiler_distorted_it() -> None:
    bars = breakdowns.bars(run(profiled(ONE, 0.080, 60, 0, 0, 30, 10, 20), profiled(TWO, 0.1, 85, 15, 0, 0, 0, 0)))
    assert [sum(width for _, _, width, _ in bar.widths) for bar in bars] == [pytest.approx(100)] * 2
    assert "1.50 times the timed one" in bars[0].note
    assert bars[1].note == "steps from markers"


def test_the_page_shows_them_and_says_when_there_is_nothing() -> None:
    page = scaling_report(run(profiled(ONE, 0.080, 80, 0, 0, 0, 0, 0), profiled(TWO, 0.1, 85, 15, 0, 0, 0, 0)), {})
    assert "What the lost efficiency is made of" in page
    assert "+15.0 points" in page
    assert "No case of this run was profiled" in scaling_report(run(builder.record(ONE)), {})
