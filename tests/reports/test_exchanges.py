"""The section on exchanges: its numbers are the records', losers are shown, and what is not known says why."""

import re
import shutil
from pathlib import Path

import exchange_runs
import pytest
from test_browser import chromium, framed
from test_page import HOSTILE, Page

from tfscale.reports import exchange_maps, exchanges, loads, targets
from tfscale.reports.figures.exchange_map import wrapped
from tfscale.reports.page import scaling_report
from tfscale.suite.caseresult import case_result
from tfscale.suite.record import Pruned, Run


@pytest.fixture(scope="module")
def run() -> Run:
    return exchange_runs.example()


@pytest.fixture(scope="module")
def page(run: Run) -> str:
    return scaling_report(run, {})


def row(table: exchanges.Table, exchange: str) -> dict[str, tuple[str, str]]:
    found = next(row for row in table.rows if row.exchange == exchange)
    return {
        column.title: (cell.text, cell.below or cell.reason)
        for column, cell in zip(table.columns, found.cells, strict=True)
    }


def test_a_table_for_each_network_with_what_each_exchange_costs_and_gains(run: Run) -> None:
    tables = exchanges.tables(run)
    assert [table.title for table in tables] == [
        "bert mini on 2x100Mbit", "bert mini on 2x1Gbit", "bert mini on 2xunlimited", "bert mini on two-racks",
    ]  # fmt: skip
    slow = row(tables[0], "powersgd(rank=4)")
    seconds = 0.44 + 0.09 + 8 * 750_000 / 100e6
    base = 0.44 + 8 * 45e6 / 100e6
    assert slow["Bytes"][0] == "750 kB"
    assert slow["Ratio"][0] == "60.0×"
    assert slow["Step"][0].startswith(f"{1000 * seconds:.1f}"[:5])
    assert float(slow["Speed to none"][0].rstrip("×")) == pytest.approx(base / seconds, rel=0.01)
    assert slow["Speed to none"][1].endswith("faster")
    assert slow["Steps to target"][1].startswith("+7\u202f% (+6 to +7)")
    assert row(tables[0], "none")["Speed to none"] == ("1×", "reference")


def test_losers_are_shown_as_plainly_as_winners(run: Run) -> None:
    fast = exchanges.tables(run)[2]
    for exchange in ("fp16", "int8", "topk(ratio=0.01)", "powersgd(rank=4)"):
        assert row(fast, exchange)["Speed to none"][1].endswith("slower")
    assert exchange_maps.maps(run)[0].winners[-1] == "2xunlimited: none is fastest."
    assert exchange_maps.maps(run)[0].winners[0].startswith("2x100Mbit: powersgd(rank=4) is fastest, 6.")


def test_what_an_interval_leaves_open_is_no_gain() -> None:
    noisy = [exchange_runs.records(exchange_runs.case(exchange, None), 0.5) for exchange in ("none", "fp16")]
    run = exchange_runs.builder.run_of(tuple(map(case_result, noisy)), tuple(r for each in noisy for r in each))
    assert row(exchanges.tables(run)[0], "fp16")["Speed to none"][1].endswith("undecided")
    assert "none is fastest" in exchange_maps.maps(run)[0].winners[0]
    noisy[1] = exchange_runs.records(exchange_runs.case("fp16", None), 0.499)
    run = exchange_runs.builder.run_of(tuple(map(case_result, noisy)), tuple(r for each in noisy for r in each))
    assert exchange_maps.maps(run)[0].winners[0].endswith("times none, but its interval does not leave out 1.")


def test_coding_comes_from_the_profile_where_it_tells(run: Run) -> None:
    table = exchanges.tables(run)[0]
    assert row(table, "fp16")["Encode"][0] == "12.00 ms"
    assert row(table, "int8")["Encode"][0] == "90.00 ms"
    assert row(table, "none")["Encode"][1] == "none sends as it is"
    assert row(table, "int8")["Exposed communication"] == ("–", "not profiled")


def test_the_gain_in_speed_stands_beside_its_cost_in_steps(run: Run) -> None:
    said = dict(exchanges.tables(run)[0].said)
    assert re.fullmatch(r"6\.\dx faster steps, 7 % more steps, 6\.\dx to target", said["powersgd(rank=4)"])
    assert said["topk(ratio=0.01)"].endswith("target not reached in 900 steps by 1 of 5 seeds")
    assert "none" not in said
    assert row(exchanges.tables(run)[0], "topk(ratio=0.01)")["Time to target"][0] == "–"


def test_a_run_that_trained_nothing_has_no_such_columns() -> None:
    tables = exchanges.tables(exchange_runs.example(trained=False))
    assert not any("target" in column.title for table in tables for column in table.columns)
    assert not any(table.said for table in tables)


def test_asynchronous_training_says_its_staleness(run: Run) -> None:
    (apart,) = targets.apart(run)
    assert "staleness 0.930 updates" in apart.detail
    assert "more steps" in apart.words and apart.words.endswith("to target")


def test_the_drawing_names_the_busiest_link(run: Run) -> None:
    drawn = {(each.title, each.caption.partition(":")[0]): each for each in loads.drawings(run)}
    ring = drawn["two-racks", "ring all-reduce"]
    # 1.5 x 45 MB over 200 Mbit/s each way; two levels move 45 MB.
    assert "Busiest is rack a's link to the core, for 2.700 s at least" in ring.caption
    assert "rack a's link to the core, for 1.800 s at least" in drawn["two-racks", "two levels"].caption
    assert "↑ 67.5 MB" in ring.figure and "200Mbit/s" in ring.figure and "replica 3" in ring.figure


def test_bytes_that_travel_in_ways_not_told_are_not_drawn() -> None:
    made = exchange_runs.records(exchange_runs.case("none", "1Gbit"), 0.5)
    other = [r.model_copy(update={"effective": {**r.effective, "exchange_handed": {"sum": 16}}}) for r in made]
    assert len(loads.drawings(exchange_runs.builder.run_of((case_result(made),), tuple(made)))) == 1
    assert loads.drawings(exchange_runs.builder.run_of((case_result(other),), tuple(other))) == []


def test_a_pruned_exchange_has_an_empty_cell_that_says_why(run: Run) -> None:
    refused = Pruned(case=exchange_runs.case("dgc", "1Gbit").axes(), reason="no momentum to correct")
    (first, *_) = exchange_maps.maps(run.model_copy(update={"pruned": (refused,)}))
    assert "dgc on 2x1Gbit: no momentum to correct" in first.reasons
    assert "pruned" in first.figure and "not run" in first.figure


def test_the_section_is_there_only_with_something_to_compare(page: str, example_page: str) -> None:
    assert 'id="exchanges"' in page and 'href="#exchanges"' in page
    assert 'id="exchanges"' not in example_page and 'href="#exchanges"' not in example_page


def test_the_page_stays_whole_and_the_same(run: Run, page: str) -> None:
    found = Page(page)
    assert found.crossed == [] and found.open == []
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {(attributes.get("href") or "#findings")[1:] for _, attributes in found.tags if "href" in attributes}
    assert links <= set(ids)
    assert scaling_report(run, {}) == page


def test_hostile_names_are_text() -> None:
    topology = {"hosts": 2, "link": "1Gbit", "name": HOSTILE[:60]}
    made = [
        exchange_runs.records(exchange_runs.case(exchange, None, topology=topology), 0.5)
        for exchange in ("none", HOSTILE)
    ]
    run = exchange_runs.builder.run_of(tuple(map(case_result, made)), tuple(r for each in made for r in each))
    html = scaling_report(run, {})
    assert [tag for tag, _ in Page(html).tags].count("script") == 1
    assert HOSTILE[:60] in Page(html).text


def test_names_are_broken_to_fit_a_column() -> None:
    assert wrapped("powersgd(rank=4)") == "powersgd\n(rank=4)"
    assert wrapped("none") == "none"
    assert all(len(line) <= 13 for line in wrapped("hierarchical(cross=fp16, chunks=20)").split("\n"))


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
@pytest.mark.parametrize("width", [1400, 400])
def test_nothing_sticks_out(page: str, tmp_path: Path, width: int) -> None:
    file = tmp_path / "page.html"
    file.write_text(framed(page, width), encoding="utf-8")
    dom = chromium(tmp_path / "profile", file, 1500, "--dump-dom").stdout
    assert "&quot;outside&quot;:[]" in dom or '"outside":[]' in dom
    assert "&quot;faults&quot;:[]" in dom or '"faults":[]' in dom
