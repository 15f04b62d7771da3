"""Steps by every source, on timelines whose answer is known by construction."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
from toy_timeline import PS, E, Ref, Timeline

from tfscale.suite.profiling.analysed import DeviceAnswer, HostAnswer, analyse
from tfscale.suite.profiling.readers import xplane

GPU, CPU, TPU = "/device:GPU:0", "/host:CPU", "/device:TPU:0"


def host(timeline: Timeline, **options: bool) -> HostAnswer:
    return analyse([xplane.read(timeline.bytes(), "synthetic")], **options).hosts[0]


def only(timeline: Timeline) -> DeviceAnswer:
    (device,) = host(timeline).devices
    return device


def us(device: DeviceAnswer) -> list[tuple[int, float, float]]:
    """(number, begin, end) of the steps in microseconds."""
    steps = device.steps
    return [
        (int(n), float(a) / PS, float(b) / PS) for n, a, b in zip(steps.number, steps.start, steps.end, strict=True)
    ]


def parts(device: DeviceAnswer, at: int = 0) -> dict[str, float]:
    return {name: ps / PS for name, ps in device.parts[at].parts.items() if ps}


def marker(number: int, start: float, length: float) -> E:
    return E("train", start, length, step_num=number, _r=1)


def launch(start: float, correlation: int) -> E:
    return E("cuLaunchKernel", start, 1, correlation_id=correlation)


def kernel(name: str, start: float, length: float, correlation: int) -> E:
    return E(name, start, length, correlation_id=correlation)


def test_markers_are_the_steps_of_a_host_that_computes() -> None:
    timeline = Timeline().line(CPU, "python", [marker(3, 0, 100), marker(4, 110, 90)])
    timeline.line(CPU, "tf_Compute/1", [E("a/MatMul:MatMul", 10, 40), E("a/MatMul:MatMul", 120, 50)])
    device = only(timeline)
    assert (device.steps.source, us(device)) == ("markers", [(3, 0, 100), (4, 110, 200)])
    # Python has its marker open and nothing else, so the rest of the step is its own work.
    assert parts(device) == {"compute": 40, "host_overhead": 60}


def test_a_host_three_steps_ahead_of_its_gpu() -> None:
    """All launches come in the first 40 us; kernels of step n run at 100 n. A kernel belongs to its launcher's step."""
    timeline = Timeline().line(CPU, "python", [marker(n, 10 * n, 9) for n in range(4)])
    timeline.line(CPU, "launcher", [launch(10 * n + 2, n + 1) for n in range(4)])
    kernels = [kernel("gemm", 100 + 100 * n, 80, n + 1) for n in range(4)]
    device = only(timeline.line(GPU, "Stream #7(Kernel)", kernels))
    assert device.steps.source == "markers"
    # From the end of the step before to the end of its own last kernel; the first from its first kernel.
    assert us(device) == [(0, 100, 180), (1, 180, 280), (2, 280, 380), (3, 380, 480)]
    assert parts(device, 1) == {"compute": 80, "idle": 20}


def test_a_step_of_which_nothing_ran_on_the_device_is_dropped_with_its_reason() -> None:
    timeline = Timeline().line(CPU, "python", [marker(0, 0, 9), marker(1, 10, 9)])
    timeline.line(CPU, "launcher", [launch(12, 5)])
    device = only(timeline.line(GPU, "Stream #7(Kernel)", [kernel("gemm", 30, 5, 5)]))
    assert us(device) == [(1, 30, 35)]
    (dropped,) = device.steps.dropped
    assert (dropped.step, dropped.reason) == (0, "nothing of it ran on /device:GPU:0")


def test_several_streams_and_what_covers_what() -> None:
    timeline = Timeline()
    timeline.line(GPU, "Stream #1(Kernel)", [E("gemm", 0, 10), E("gemm", 20, 10)])
    timeline.line(GPU, "Stream #2(Kernel)", [E("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 5, 10)])
    timeline.line(GPU, "Stream #3(MemcpyH2D)", [E("MemcpyH2D", 12, 6), E("Memset 4 bytes", 19, 1)])
    timeline.line(GPU, "XLA Ops", [E("fusion", 0, 30)])
    device = only(timeline)
    assert device.steps.source == "whole window"
    # 0-10 and 19-30 compute (a memset is), 10-15 exposed communication, 15-18 exposed copy, 18-19 idle.
    assert parts(device) == {"compute": 21, "exposed_communication": 5, "exposed_copy": 3, "idle": 1}
    totals = {name: ps / PS for name, ps in device.parts[0].totals.items()}
    assert totals == {"communication": 10, "overlapped_communication": 5, "copy": 6, "wait": 0}


def test_a_background_iterator_that_is_open_is_not_waiting() -> None:
    timeline = Timeline().line(CPU, "python", [marker(0, 0, 100), E("KernelAndDeviceFunc::Run", 1, 98)])
    timeline.line(CPU, "tf_data_iterator_get_next/1", [E("IteratorGetNextOp::DoCompute", 5, 10)])
    timeline.line(CPU, "tf_data_iterator_resource/2", [E("Iterator::Root::Prefetch::Map", 0, 100)])
    timeline.line(CPU, "tf_Compute/1", [E("a/MatMul:MatMul", 20, 70)])
    assert parts(only(timeline)) == {"compute": 70, "input_wait": 10, "host_overhead": 2, "idle": 18}


def test_a_collective_is_its_operation_on_the_collective_thread() -> None:
    timeline = Timeline().line(CPU, "python", [marker(0, 0, 100), E("KernelAndDeviceFunc::Run", 0, 100)])
    timeline.line(CPU, "tf_Compute/1", [E("a/MatMul:MatMul", 0, 40), E("CollectiveOpV2Kernel::Run", 40, 1)])
    timeline.line(CPU, "collective_ops/1", [E("sgd/CollectiveReduceV2:CollectiveReduceV2", 30, 50), E("Loop", 31, 48)])
    assert parts(only(timeline)) == {"compute": 40, "exposed_communication": 40, "idle": 20}


@pytest.mark.parametrize("name", ["Steps", "XLA Modules"])
def test_derived_lines_tell_steps_and_are_never_summed(name: str) -> None:
    timeline = Timeline().line(GPU, "Stream #1(Kernel)", [E("gemm", 0, 10), E("gemm", 50, 10)], id=-559038737)
    names = ("7", "8") if name == "Steps" else ("jit_train(1)", "jit_train(1)")
    events = [E(text, 50 * i, 20, run_id=7 + i) for i, text in enumerate(names)]
    device = only(timeline.line(GPU, name, events))
    assert us(device) == [(7, 0, 20), (8, 50, 70)]
    assert parts(device) == {"compute": 10, "idle": 10}


def test_function_runs_where_nothing_else_tells() -> None:
    runs = [E("EagerLocalExecute: __inference_train_step_9", 50 * i, 40, _r=1) for i in range(3)]
    timeline = Timeline().line(CPU, "python", [*runs, E("EagerLocalExecute: __inference_small_2", 45, 2, _r=1)])
    device = only(timeline.line(CPU, "tf_Compute/1", [E("a/MatMul:MatMul", 10, 20)]))
    assert (device.steps.source, us(device)) == ("function runs", [(0, 0, 40), (1, 50, 90), (2, 100, 140)])


def test_markers_that_overlap_are_cut_and_said() -> None:
    timeline = Timeline().line(CPU, "python", [marker(0, 0, 60), marker(1, 50, 50), marker(2, 100, 0)])
    device = only(timeline.line(CPU, "tf_Compute/1", [E("a/MatMul:MatMul", 10, 20)]))
    assert us(device) == [(0, 0, 50), (1, 50, 100)]
    assert device.steps.notes == ("1 steps overlap the next one and are cut where it begins",)
    assert [(d.step, d.reason) for d in device.steps.dropped] == [(2, "it has no length")]


def test_edge_steps_are_left_out_when_asked() -> None:
    timeline = Timeline().line(CPU, "python", [marker(n, 10 * n, 10) for n in range(4)])
    timeline.line(CPU, "tf_Compute/1", [E("a/MatMul:MatMul", 1, 2)])
    device = host(timeline, edge_steps=False).devices[0]
    assert us(device) == [(1, 10, 20), (2, 20, 30)]
    assert [dropped.step for dropped in device.steps.dropped] == [0, 3]


def test_tpu_windows_unite_and_only_compute_covers() -> None:
    """A copy window of 0-60 is hidden by compute for 30; a synchronous all-reduce in it covers nothing of it."""
    of_name = {
        "%fusion": {"hlo_category": Ref("loop fusion")},
        "%ar": {"hlo_category": "all-reduce"},
        "%copy-start": {"hlo_category": "copy-start"},
    }
    timeline = Timeline().line(
        TPU, "XLA Ops", [E("%copy-start", 0, 1), E("%fusion", 1, 30), E("%ar", 31, 20), E("%fusion", 80, 20)],
        of_name=of_name,
    )  # fmt: skip
    timeline.line(TPU, "Async XLA Ops", [E("%copy-start", 0, 60), E("%copy-start", 10, 40)], of_name=of_name)
    timeline.line(TPU, "XLA TraceMe", [E("barrier-cores", 70, 5)])
    device = only(timeline)
    assert parts(device) == {"compute": 50, "exposed_communication": 20, "exposed_copy": 10, "idle": 20}
    assert device.parts[0].totals["copy"] == 60 * PS
    assert device.parts[0].totals["wait"] == 5 * PS
    without = host(timeline, async_windows=False).devices[0]
    assert without.parts[0].parts["exposed_copy"] == 1 * PS


def test_legal_oddities_are_read_as_they_are() -> None:
    """Unsorted events, no length, a plane without lines, negative line ids, stats by reference, epoch line times."""
    timeline = Timeline(start_ns=1_700_000_000 * 10**9, epoch_lines=True)
    timeline.plane("/device:GPU:1")
    timeline.line(
        GPU, "Stream #1(Kernel)", [E("gemm", 30, 10), E("gemm", 0, 10), E("gemm", 5, 0)], id=-1, timestamp_us=5
    )
    trace = xplane.read(timeline.bytes(), "odd")
    assert trace.origin_ns == 1_700_000_000 * 10**9 + 5000
    assert np.sort(trace.start_ps).tolist() == [0, 5 * PS, 30 * PS]
    device = analyse([trace]).hosts[0].devices[0]
    assert parts(device) == {"compute": 20, "idle": 20}
