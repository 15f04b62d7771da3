"""Counters on the page: a card with values known by construction, unknowns with their reasons, the changes since before."""

import builder
import numpy as np
import pytest

from tfscale.reports import changes, counters
from tfscale.reports.figures.multiples import Row, small_multiples
from tfscale.reports.page import scaling_report
from tfscale.suite.caseresult import case_result
from tfscale.suite.monitors.base import Column
from tfscale.suite.monitors.series import Series
from tfscale.suite.record import Monitored, Quantity, Unsampled, unknown
from tfscale.suite.spec import Case

CASE = Case(workload="bert", preset="tiny", per_replica_batch=8)
NO_POWER = "NVML: Not Supported"
SEEN = {
    "nvml": Monitored(
        samples=40,
        summary={
            "gpu0": {
                "temperature_mean": Quantity(value=61.5, unit="C", kind="measured", statistic="time-weighted mean"),
                "power_mean": unknown("W", "measured", "time-weighted mean", NO_POWER),
            }
        },
        unsampled={"gpu0/power": Unsampled(state="unsupported", reason=NO_POWER)},
    ),
    "rdma": Monitored(reason="no adapter <script>"),
}


def page(**record_changes: object) -> str:
    record = builder.record(CASE).model_copy(update={"monitors": SEEN, **record_changes})
    t_ns = np.arange(-1, 40) * 1_000_000_000
    columns = (Column("own_cpu", "s", "counter"), Column("memory_available", "B", "gauge"))
    values = np.stack([1.5 * np.arange(t_ns.size), np.full(t_ns.size, 2e9)], axis=1)
    series = {record.id: {"host": Series(columns, t_ns, values)}}
    run = builder.run_of((case_result([record]),), (record,))
    old = {**builder.ENVIRONMENT, "cpu": {**builder.ENVIRONMENT["cpu"], "governor": "powersave"}}
    return scaling_report(run, {record.id: builder.blocks(record)}, (), series, ("20250228-0200", old))


def test_what_was_not_reported_says_why_and_is_never_zero() -> None:
    text = page()
    assert text.count(NO_POWER) >= 2
    assert "61.50 C" in text
    assert "no adapter &lt;script&gt;" in text


def test_counters_stand_under_the_step_axis() -> None:
    text = page()
    assert "CPU of the run, cores" in text
    assert "memory available, GB" in text


def test_a_rate_is_drawn_at_its_height() -> None:
    """1.5 CPU seconds a second in every block: a straight line."""
    svg = small_multiples(np.array([0.0, 10.0, 20.0]), [Row("cores", [("", np.array([1.5, 1.5]))])], "words")
    line = svg.split('fill="none" stroke="#0072b2"')[0].rsplit('d="', 1)[1]
    heights = {piece.split(" ")[1].split("H")[0] for piece in line.split("M")[1:]}
    assert len(heights) == 1


def test_a_gap_is_drawn_as_one() -> None:
    svg = small_multiples(np.arange(4.0), [Row("cores", [("", np.array([1.0, np.nan, 2.0]))])], "words")
    path = svg.split('stroke="#0072b2"')[0].rsplit('d="', 1)[1]
    assert path.count("M") == 2


def test_the_change_since_the_last_run_is_told() -> None:
    text = page()
    assert "What changed since 20250228-0200" in text
    assert "powersave" in text


def test_a_reason_stands_in_place_of_its_null() -> None:
    told = changes.captured({"cpu": {"turbo": None, "turbo_reason": "not there", "cores": 2}})
    assert told == [("cpu.turbo", "unknown: not there"), ("cpu.cores", "2")]


def test_without_samples_there_is_no_card() -> None:
    record = builder.record(CASE)
    assert counters.cards(builder.run_of((case_result([record]),), (record,)), {}, {}) == []


@pytest.mark.parametrize("before", [None, ("old", {})])
def test_nothing_to_compare_with(before: tuple[str, dict[str, object]] | None) -> None:
    assert changes.changes(builder.ENVIRONMENT, before) is None
