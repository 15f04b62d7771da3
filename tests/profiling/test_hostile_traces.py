"""Traces and paths that are made to mislead: escapes, giant names and numbers, repeated steps, files given twice."""

import json
import os
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
from toy_timeline import PS, E, Timeline

from tfscale.harness import app
from tfscale.suite.display import visible
from tfscale.suite.profiling import operations
from tfscale.suite.profiling.answer import answer
from tfscale.suite.profiling.operations import self_times
from tfscale.suite.profiling.readers import kineto, xplane
from tfscale.suite.profiling.table import TraceError

GPU, CPU = "/device:GPU:0", "/host:CPU"


def save(folder: Path, timeline: Timeline, name: str = "a") -> Path:
    path = folder / f"{name}.xplane.pb"
    path.write_bytes(timeline.bytes())
    return path


def run(*words: object) -> Any:
    return CliRunner().invoke(app, ["trace", *map(str, words)])


def document(*words: object) -> Any:
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    """Escapes, a carriage return, a change of writing direction, markup, an emoji's code; in every place of a name."""
    evil = "\x1b[2J\x07\r\u202e[bold]x[/bold]:bomb:\nnote: all is well"
    timeline = Timeline(host=evil).line(CPU, "python", [E("train", 0, 100, step_num=0, _r=1)])
    timeline.line(CPU, "tf_Compute/1", [E(f"A Strange {evil}", 10, 20), E(f"{evil}/M:MatMul", 40, 20)])
    path = save(tmp_path, timeline.complain(errors=(evil,), warnings=(evil,)))
    shown = run(path).stdout
    assert not [letter for letter in shown if (ord(letter) < 32 and letter != "\n") or letter == "\u202e"]
    assert "\\x1b[2J" in shown and "[bold]x[/bold]:bomb:" in shown
    assert not [line for line in shown.splitlines() if line.startswith("note: all is well")]
    assert document(path)["hosts"][0]["host"] == evil


def test_a_file_name_that_is_no_text_is_named_in_the_error(tmp_path: Path) -> None:
    path = Path(os.fsdecode(bytes(tmp_path) + b"/\xff\x1b[31m.xplane.pb"))
    path.write_bytes(b"no trace")
    done = run(path)
    assert done.exit_code == 2
    assert "\\udcff\\x1b[31m.xplane.pb" in done.stderr


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("\x1b[1m", "\\x1b[1m"), ("a\tb\nc", "a\tb\nc"), ("\u202e", "\\u202e"), ("\udc80", "\\udc80"), ("Zoë – 42", "Zoë – 42")],
)  # fmt: skip
def test_what_a_terminal_is_shown(text: str, wanted: str) -> None:
    assert visible(text) == wanted


@pytest.mark.parametrize(
    "name", ["broadcast" * 60_000, "a_1<" * 100_000, "0" * 500_000, "a.1" * 200_000 + "!", "{0,1}," * 80_000]
)
def test_a_giant_name_costs_no_more_than_its_length(name: str, tmp_path: Path) -> None:
    timeline = Timeline().line(GPU, "Stream #1(Kernel)", [E(name, 0, 5)]).complain(warnings=(name,))
    path = save(tmp_path, timeline)
    began = time.perf_counter()
    answer([path])
    assert time.perf_counter() - began < 2


def test_a_count_of_dropped_events_that_no_integer_holds(tmp_path: Path) -> None:
    timeline = Timeline().line(GPU, "Stream #1(Kernel)", [E("gemm", 0, 5)]).plane(GPU, dropped_events="9" * 5000)
    path = save(tmp_path, timeline.complain(warnings=(f"dropped {'9' * 5000} events", "dropped 7 events")))
    assert document(path)["honesty"]["hosts"][0]["dropped_events"] == 7


@pytest.mark.parametrize("ts", ["1e400", "1e999999999", "-1e999999", "9" * 5000, "1e17"])
@pytest.mark.parametrize("first", [True, False])
def test_times_that_no_clock_shows_are_refused(ts: str, first: bool) -> None:
    odd = f'{{"ph":"X","name":"a","cat":"kernel","ts":{ts},"dur":5}}'
    good = '{"ph":"X","name":"a","cat":"kernel","ts":1,"dur":5}'
    with pytest.raises(TraceError, match=r"^f\.json: .*no clock shows"):
        kineto.read(f"[{odd if first else good},{good if first else odd}]".encode(), "f.json")
    with pytest.raises(TraceError, match=r"^f\.json: .*no clock shows"):
        text = f'[{{"ph":"B","name":"a","pid":1,"tid":1,"ts":1}},{{"ph":"E","pid":1,"tid":1,"ts":{ts}}}]'
        kineto.read(text.encode(), "f.json")


def test_events_without_an_end_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(
        '[{"ph":"X","name":"a","ts":1,"dur":5},{"ph":"B","name":"b","pid":1,"tid":1,"ts":1},'
        '{"ph":"E","pid":2,"tid":1,"ts":1},{"ph":"X","name":"c","dur":5}]'
    )
    assert "3 events have no begin or no end" in " ".join(document(path)["honesty"]["notes"])


def test_a_cut_json_names_the_byte() -> None:
    with pytest.raises(TraceError, match="at byte 36 of 36"):
        kineto.read(b'{"traceEvents": [{"ph": "X", "ts": 1', "f.json")


def test_a_device_that_nothing_reads_is_named(tmp_path: Path) -> None:
    timeline = Timeline().line("/device:CUSTOM:thing", "Row", [E("x", 0, 5)]).line(GPU, "Stream #1", [E("gemm", 0, 5)])
    notes = " ".join(document(save(tmp_path, timeline))["honesty"]["notes"])
    assert "/device:CUSTOM:thing has events, and nothing here reads them" in notes


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_neither_file_nor_folder_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.xplane.pb"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path = Path("/dev/null")
    done = run(path)
    assert done.exit_code == 2
    assert "neither a file nor a folder" in done.stderr.replace("\n", " ")


def test_one_file_by_several_names_is_one_host(tmp_path: Path) -> None:
    path = save(tmp_path, Timeline(host="a").line(GPU, "Stream #1", [E("gemm", 0, 5)]))
    (tmp_path / "link.xplane.pb").symlink_to(path)
    found = document(path, tmp_path / "link.xplane.pb", f"{tmp_path}/../{tmp_path.name}/a.xplane.pb", path)
    assert [host["host"] for host in found["hosts"]] == ["a"]
    assert sum("read once" in note for note in found["honesty"]["notes"]) == 3


def test_numbers_of_steps_that_begin_again_are_other_steps(tmp_path: Path) -> None:
    """Two epochs of steps 0 to 2, of 10 us each; a second thread marks the same steps a little later."""
    timeline = Timeline()
    for thread, late in (("python", 0), ("helper", 1)):
        marks = [E("train", 10 * n + late, 9, step_num=n % 3, _r=1) for n in range(6)]
        timeline.line(CPU, thread, marks)
    timeline.line(CPU, "tf_Compute/1", [E("a/MatMul:MatMul", 10 * n + 2, 5) for n in range(6)])
    (device,) = document(save(tmp_path, timeline))["hosts"][0]["devices"]
    steps = [(step["step"], step["start_ps"] // PS, step["parts"]["compute"] // PS) for step in device["steps"]]
    assert steps == [(n, 10 * n, 5) for n in range(6)]


def test_of_two_steps_that_begin_together_the_shorter_is_dropped_with_its_reason(tmp_path: Path) -> None:
    timeline = Timeline().line(GPU, "Stream #1", [E("gemm", 0, 5)])
    (device,) = document(save(tmp_path, timeline.line(GPU, "Steps", [E("1", 0, 5), E("2", 0, 9)])))["hosts"][0][
        "devices"
    ]
    assert [step["span_ps"] for step in device["steps"]] == [9 * PS]
    assert device["dropped_steps"] == [{"step": 1, "reason": "the next step begins with it"}]


def test_steps_of_a_line_whose_events_come_in_any_order_are_counted_in_time(tmp_path: Path) -> None:
    plane = "/device:TPU:0"
    modules = [E("f", at, 10) for at in (200, 0, 100)]
    timeline = Timeline().line(plane, "XLA Modules", modules).line(plane, "XLA Ops", [E("%fusion", 0, 210)])
    (device,) = document(save(tmp_path, timeline))["hosts"][0]["devices"]
    assert [(step["step"], step["start_ps"]) for step in device["steps"]] == [(n, 100 * n * PS) for n in range(3)]


def test_all_lines_of_a_name_on_a_tpu_count(tmp_path: Path) -> None:
    plane = "/device:TPU:0"
    timeline = Timeline().line(plane, "XLA Ops", [E("%fusion", 0, 5)]).line(plane, "XLA Ops", [E("%fusion", 5, 5)])
    (device,) = document(save(tmp_path, timeline))["hosts"][0]["devices"]
    assert device["window"]["parts"]["compute"] == 10 * PS


def test_edges_that_cannot_be_left_out_are_said(tmp_path: Path) -> None:
    timeline = Timeline().line(GPU, "Stream #1", [E("gemm", 0, 9)]).line(GPU, "Steps", [E("1", 0, 5), E("2", 5, 9)])
    found = document(save(tmp_path, timeline), "--drop-edge-steps")
    assert len(found["hosts"][0]["devices"][0]["steps"]) == 2
    assert "all of 2 steps are kept" in " ".join(found["honesty"]["notes"])


def test_a_comparison_with_steps_of_no_length_or_of_another_kind_says_so(tmp_path: Path) -> None:
    base = Timeline().line(GPU, "Stream #1", [E("gemm", 0, 9)])
    stepped = Timeline().line(GPU, "Stream #1", [E("gemm", 0, 9)]).line(GPU, "Steps", [E("1", 0, 5)])
    empty = Timeline().line(GPU, "Stream #1", [E("gemm", 5, 0)])
    window, steps, nothing = (
        save(tmp_path, one, name) for name, one in zip("abc", (base, stepped, empty), strict=True)
    )
    for one, other, words in (
        (steps, window, "from steps line"),
        (nothing, window, "no length"),
        (window, nothing, "no length"),
    ):
        (device,) = document(one, "--against", other)["against"]["devices"]
        assert words in device["reason"]
        assert words in run(one, "--against", other).stdout


def test_an_operation_that_one_trace_lacks_has_no_length_there(tmp_path: Path) -> None:
    base, new = (save(tmp_path, Timeline().line(GPU, "Stream #1", [E(name, 0, 9)]), name) for name in ("old", "young"))
    changes = {one["name"]: one for one in document(new, "--against", base)["against"]["operations"]}
    assert (changes["young"]["before_each_ps"], changes["young"]["after_each_ps"]) == (None, 9 * PS)
    assert (changes["old"]["after_each_ps"], changes["old"]["after_ps"]) == (None, 0)


def test_one_rank_of_a_collective_tells_no_wait_and_no_bus_bandwidth(tmp_path: Path) -> None:
    """Unknown is null with a reason: an all-reduce of an unknown number of ranks, seen on one of them."""
    timeline = Timeline().line(GPU, "Stream #1", [E("ncclDevKernel_AllReduce", 0, 100, buffer_size=4_000_000)])
    (one,) = document(path := save(tmp_path, timeline))["collectives"]
    assert (one["members"], one["seen"], one["waits_ps"], one["bus_bandwidth"]) == (None, 1, None, None)
    assert (one["algorithm_bandwidth"], one["duration_from"]) == (
        pytest.approx(4e10), "the one rank that was seen, its wait included",
    )  # fmt: skip
    assert "one rank was seen of an unknown number" in one["reason"]
    row = next(line for line in run(path).stdout.splitlines() if line.startswith("all_reduce"))
    assert row.split() == ["all_reduce", "4,000,000", "unknown", "1", "0.100", "ms", "unknown", "unknown"]


def test_captures_without_a_common_axis_have_no_common_origin(tmp_path: Path) -> None:
    paths = [
        save(tmp_path, Timeline(host=host, start_ns=start).line(GPU, "Stream #1", [E("gemm", 5, 9)]), host)
        for host, start in (("a", 10**18), ("b", 10**18 + 10**17))
    ]
    found = document(*paths)
    assert found["origin_ns"] is None
    assert "too far apart" in found["origin_reason"]
    assert [host["devices"][0]["window"]["start_ps"] for host in found["hosts"]] == [5 * PS, 5 * PS]


def test_a_capture_that_ends_before_it_begins_has_no_length(tmp_path: Path) -> None:
    timeline = Timeline(start_ns=10**18, stop_ns=10**17).line(GPU, "Stream #1", [E("gemm", 5, 9)])
    (host,) = document(save(tmp_path, timeline))["honesty"]["hosts"]
    assert (host["capture_ns"], bool(host["capture_reason"])) == (None, True)


spans = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12), st.integers(0, 8)), min_size=1, max_size=12)


@given(spans)
def test_self_times_against_a_raster(events: list[tuple[int, int, int]]) -> None:
    """By the definition, instant by instant: what of an event those inside it do not cover, each of which is inside the
    one that begins last of all that begin before it and end no earlier."""
    timeline = Timeline()
    for line in (0, 1):
        timeline.line(CPU, f"tf_Compute/{line}", [E("x", a, length) for on, a, length in events if on == line])
    trace = xplane.read(timeline.bytes(), "f")
    count = trace.start_ps.size
    found = self_times(trace, np.arange(count)) // PS
    start, end = (trace.start_ps // PS).tolist(), (trace.end_ps // PS).tolist()
    line = trace.line_of(np.arange(count)).tolist()
    place = [(start[i], start[i] - end[i], i) for i in range(count)]
    covered: list[set[int]] = [set() for _ in range(count)]
    for j in range(count):
        around = [i for i in range(count) if line[i] == line[j] and place[i] < place[j] and end[i] >= end[j]]
        if around:
            covered[max(around, key=place.__getitem__)].update(range(start[j], end[j]))
    assert found.tolist() == [end[i] - start[i] - len(covered[i]) for i in range(count)]


def test_a_line_nested_thousands_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 3,000 events holds the next one and 2 us more; a late one overlaps them all, which links cannot skip."""
    depth = 3000
    events = [E("x", n, 2 * (depth - n)) for n in range(depth)]
    trace = xplane.read(Timeline().line(CPU, "tf_Compute/1", [*events, E("x", depth, 3 * depth)]).bytes(), "f")
    rows = np.arange(depth + 1)
    own = self_times(trace, rows) // PS
    assert own[:-2].tolist() == [2] * (depth - 1)
    monkeypatch.setattr(operations, "_MOST_ROUNDS", 10**6)
    assert (self_times(trace, rows) // PS).tolist() == own.tolist()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), min_size=1, max_size=20))
def test_self_times_of_a_line_sum_to_what_it_covers_where_events_nest_or_follow(found: list[tuple[int, int]]) -> None:
    """Events that follow one another, each with one inside: self times are the outer lengths."""
    outer, at = [], 0
    for gap, length in found:
        outer.append((at + gap, length))
        at += gap + length
    assert all(a + length <= b for (a, length), (b, _) in pairwise(outer))
    events = [E("x", a, length) for a, length in outer] + [E("y", a, length / 2) for a, length in outer]
    trace = xplane.read(Timeline().line(CPU, "tf_Compute/1", events).bytes(), "f")
    assert int(self_times(trace, np.arange(len(events))).sum()) == sum(length for _, length in outer) * PS
