"""What comes out: differences, operations, honesty, the record's breakdown, tables and pages."""

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
from toy_timeline import PS, E, Timeline

from tfscale.harness import app
from tfscale.reports import trace_page
from tfscale.suite.profiling import answer as tracing
from tfscale.suite.profiling.operations import normalise, self_times
from tfscale.suite.profiling.readers import xplane
from tfscale.suite.profiling.strip import strips
from tfscale.suite.profiling.summary import breakdown

GPU, CPU = "/device:GPU:0", "/host:CPU"


def save(folder: Path, name: str, timeline: Timeline) -> Path:
    path = folder / f"{name}.xplane.pb"
    path.write_bytes(timeline.bytes())
    return path


def job(compute: float, communication: float, count: int = 4, kernel: str = "fused_dot_17") -> Timeline:
    """Steps of `compute` then exposed communication, in microseconds, on one GPU."""
    step = compute + communication
    timeline = Timeline()
    timeline.line(GPU, "Stream #1(Kernel)", [E(kernel, n * step, compute) for n in range(count)])
    timeline.line(
        GPU,
        "Stream #2(Kernel)",
        [E("ncclDevKernel_AllReduce", n * step + compute, communication) for n in range(count)],
    )
    return timeline.line(GPU, "Steps", [E(str(n), n * step, step) for n in range(count)])


def run(*words: str) -> Any:
    done = CliRunner().invoke(app, ["trace", *words])
    assert done.exit_code == 0, done.output
    return done


def test_against_says_which_parts_grew_and_sums_to_all(tmp_path: Path) -> None:
    """80 us before, 80 + 40 after: efficiency 66.7 %, all of the rest communication."""
    base, other = save(tmp_path, "base", job(70, 10)), save(tmp_path, "new", job(70, 50, kernel="fused_dot_3"))
    document = json.loads(run(str(other), "--against", str(base), "--json").stdout)
    (device,) = document["against"]["devices"]
    assert device["efficiency"] == pytest.approx(80 / 120)
    assert device["lost"]["exposed_communication"] == pytest.approx(40 / 120)
    assert device["efficiency"] + sum(device["lost"].values()) == pytest.approx(1, abs=1e-12)
    changes = {change["name"]: change for change in document["against"]["operations"]}
    # The counter at the end of a name is not part of it: both builds' kernels are one operation.
    assert changes["fused_dot"]["grown_ps"] == 0
    assert changes["ncclDevKernel_AllReduce"]["grown_ps"] == 40 * PS
    assert "efficiency 66.7%" in run(str(other), "--against", str(base)).stdout


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("fused_dot_17", "fused_dot"),
        ("loop_add_fusion.12", "loop_add_fusion"),
        ("%fusion.7 = f32[8]{0} fusion(f32[8] %p)", "fusion"),
        ("void gemm<float, Tile<4, 8> >(float*)", "void gemm<>(float*)"),
        ("sequential_1/dense_2/MatMul:MatMul", "sequential/dense/MatMul:MatMul"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("a < b", "a < b"),
        ("", "(no name)"),
    ],
)
def test_names_of_different_builds_line_up(name: str, wanted: str) -> None:
    assert normalise(name) == wanted


def test_self_time_is_without_what_runs_inside() -> None:
    """a 0-100 holds b 10-40, which holds c 20-30, and d 50-60; e follows."""
    events = [E("a", 0, 100), E("b", 10, 30), E("c", 20, 10), E("d", 50, 10), E("e", 100, 5)]
    trace = xplane.read(Timeline().line(CPU, "tf_Compute/1", events).bytes(), "f")
    rows = trace.lines[0]
    import numpy as np

    assert (self_times(trace, np.arange(rows.first, rows.stop)) // PS).tolist() == [60, 20, 10, 10, 5]


def test_unclassified_time_is_said_first_and_fails_under_strict(tmp_path: Path) -> None:
    timeline = Timeline().line(CPU, "tf_Compute/1", [E("A Strange Thing", 0, 50), E("a/MatMul:MatMul", 50, 50)])
    path = save(tmp_path, "odd", timeline)
    done = CliRunner().invoke(app, ["trace", str(path), "--strict"])
    assert done.exit_code == 1
    assert done.stdout.lstrip().startswith("50.0% of the device time could not be classified: A Strange Thing")


@pytest.mark.parametrize("name", ["my_allreduce_kernel", "void custom::AllGather_v2", "fancy_reduce_scatter"])
def test_a_kernel_that_looks_like_communication_and_is_in_no_table_is_seen(name: str, tmp_path: Path) -> None:
    path = save(tmp_path, "odd", Timeline().line(GPU, "Stream #1(Kernel)", [E(name, 0, 50), E("gemm", 50, 50)]))
    document = json.loads(run(str(path), "--json").stdout)
    assert document["honesty"]["unclassified_share"] == pytest.approx(0.5)
    assert document["honesty"]["hosts"][0]["unclassified"]["names"][0]["name"] == name


def test_a_gpu_host_without_gpu_events_gets_the_hint(tmp_path: Path) -> None:
    timeline = Timeline().plane(GPU).line(CPU, "python", [E("train", 0, 10, step_num=0, _r=1)])
    document = json.loads(run(str(save(tmp_path, "gpu", timeline)), "--json").stdout)
    assert any("NVreg_RestrictProfilingToAdminUsers=0" in note for note in document["honesty"]["notes"])


def test_what_the_profiler_says_is_passed_on(tmp_path: Path) -> None:
    timeline = job(70, 10).complain(errors=("CUPTI_ERROR_X",), warnings=("dropped 17 events on GPU 0",))
    document = json.loads(run(str(save(tmp_path, "e", timeline)), "--json").stdout)
    (host,) = document["honesty"]["hosts"]
    assert (host["errors"], host["dropped_events"]) == (["CUPTI_ERROR_X"], 17)
    assert host["capture_ns"] == 10**9


def test_csv_has_a_row_a_step_that_sums(tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run(str(save(tmp_path, "a", job(70, 10))), "--csv").stdout)))
    assert [row["step"] for row in rows] == ["window", "0", "1", "2", "3"]
    for row in rows:
        assert sum(
            int(row[part])
            for part in ("compute", "exposed_communication", "exposed_copy", "input_wait", "host_overhead", "idle")
        ) == int(row["span_ps"])


def test_the_breakdown_of_a_record(tmp_path: Path) -> None:
    """4 steps of 70 + 10 us, two optimiser steps a marked step; timed 35 us a step: distorted by 40 / 35."""
    found = breakdown(tracing.answer([save(tmp_path, "a", job(70, 10))]), 35e-6, optimizer_steps=2)
    assert found is not None
    assert (found["span_ps"], found["parts"]["compute"], found["parts"]["exposed_communication"]) == (
        40 * PS,
        35 * PS,
        5 * PS,
    )
    assert sum(found["parts"].values()) == found["span_ps"]
    assert (found["profiled_over_timed"], found["distorted"]) == (pytest.approx(40 / 35), True)
    assert (found["steps"], found["devices"], found["step_source"]) == (4, 1, "steps line")


def test_a_trace_without_marked_steps_has_no_breakdown(tmp_path: Path) -> None:
    timeline = Timeline().line(GPU, "Stream #1(Kernel)", [E("gemm", 0, 10)])
    assert breakdown(tracing.answer([save(tmp_path, "a", timeline)]), 1.0) is None


def test_strips_show_shares_of_bins(tmp_path: Path) -> None:
    """75 us compute and 25 communication, in 4 bins."""
    (strip,) = strips(tracing.answer([save(tmp_path, "a", job(75, 25, count=1))]).analysed, bins=4)
    assert strip["shares"]["compute"] == [1, 1, 1, 0]
    assert strip["shares"]["exposed_communication"] == [0, 0, 0, 1]
    assert (strip["start_ps"], strip["span_ps"], strip["edges_ps"]) == (0, 100 * PS, [0])


def test_the_page_holds_everything_and_escapes_names(tmp_path: Path) -> None:
    found = tracing.answer([save(tmp_path, "a", job(70, 10, kernel="<script>alert(1)</script>"))])
    page = trace_page.trace_report(found.document, strips(found.analysed))
    assert "<script" not in page
    assert "&lt;script&gt;" in page or "&lt;&gt;alert(1)&lt;&gt;" in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
    for words in ("Parts of each step", "Timeline", "Collectives", "What to know", "stragglers", "GPU:0"):
        assert words.lower() in page.lower()


def test_against_tells_the_wait_for_the_last_rank_from_the_transfer(tmp_path: Path) -> None:
    """Two ranks on one clock. Before, both arrive at 70 of 80 us; after, one at 70 and one at 100 of 110 us: a step of
    the early one is 30 us longer by 30 us of wait and no more transfer, and of the late one 30 us of compute."""

    def ranks(name: str, arrivals: tuple[int, int]) -> list[Path]:
        found, end = [], max(arrivals) + 10
        for rank, arrival in enumerate(arrivals):
            timeline = Timeline(host="one")
            timeline.line(GPU, "Stream #1(Kernel)", [E("gemm", end * n, arrival) for n in range(3)])
            events = [E("ncclDevKernel_AllReduce", end * n + arrival, end - arrival) for n in range(3)]
            timeline.line(GPU, "Stream #2(Kernel)", events)
            steps = [E(str(n), end * n, end) for n in range(3)]
            found.append(save(tmp_path, f"{name}{rank}", timeline.line(GPU, "Steps", steps)))
        return found

    base, new = (tracing.answer(ranks(*one)) for one in (("old", (70, 70)), ("new", (70, 100))))
    early, late = tracing.compared(base, new, 5)["devices"]
    assert early["lost"]["exposed_communication"] == early["lost_wait"] == pytest.approx(30 / 110)
    assert (late["lost"]["compute"], late["lost_wait"]) == (pytest.approx(30 / 110), 0)
    assert early["sentence"] == "efficiency 72.7%; points of the step lost: +27.3 exposed wait"
