"""Recorded traces with answers that were computed independently, to the picosecond; and what other tools print."""

import gzip
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
from toy_timeline import PS, E, Timeline

from tfscale.suite.profiling.analysed import Analysed, analyse
from tfscale.suite.profiling.answer import Answer, answer
from tfscale.suite.profiling.classes import Kind
from tfscale.suite.profiling.intervals import union
from tfscale.suite.profiling.markers import host_steps
from tfscale.suite.profiling.readers import kineto, xplane
from tfscale.suite.profiling.readers.xspace import message_class
from tfscale.suite.profiling.schema import TraceShape
from tfscale.suite.profiling.sources import read
from tfscale.suite.profiling.steps import launch_times
from tfscale.suite.profiling.table import HostTrace

XPLANES = (
    "jax_mi300/jax_conv_minimal_08_tw003",
    "xprof_gpu_multi_worker/tf_8xV100_multi_worker",
    "xprof_tpu_inference/jax_tpu_v6e_4chip",
)
HOSTS = ("mirrored", "mw_slow_w0", "mw_slow_w1", "mw_w0", "mw_w1", "plain", "xla")
KINETO = (
    "hta_nccl_data",
    "hta_ns_resolution_rank-0",
    "hta_sampled_rank-0",
    "tracelens_mi300_resnet_act_checkpoint",
)
US = 1_000_000


@pytest.fixture(scope="module")
def traces(recorded_data: Path) -> Path:
    return recorded_data / "traces"


@pytest.fixture(scope="module")
def truth(traces: Path) -> dict[str, Any]:
    return json.loads((traces / "truth.json").read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", XPLANES)
def test_devices_equal_the_truth_to_the_picosecond(name: str, traces: Path, truth: dict[str, Any]) -> None:
    """The recorded TPU answers leave windows of asynchronous operations out, so that rule is off here."""
    file = f"{name}.xplane.pb"
    trace = read(traces / file)
    assert trace.start_ps.size == truth[file]["events"]
    found = {device.device.name: device.window for device in analyse([trace], async_windows=False).hosts[0].devices}
    assert set(found) == set(truth[file]["devices"])
    for device, wanted in truth[file]["devices"].items():
        parts = found[device].parts
        rest = parts["input_wait"] + parts["host_overhead"] + parts["idle"]
        assert {
            "window_ps": found[device].span_ps,
            "compute_ps": parts["compute"],
            "comm_total_ps": found[device].totals["communication"],
            "comm_exposed_ps": parts["exposed_communication"],
            "comm_overlapped_ps": found[device].totals["overlapped_communication"],
            "memcpy_total_ps": found[device].totals["copy"],
            "memcpy_exposed_ps": parts["exposed_copy"],
            "idle_ps": rest,
        } == {key: wanted[key] for key in wanted if key.endswith("_ps") and key not in ("first_ps", "last_ps")}


@pytest.mark.parametrize("name", HOSTS)
def test_host_steps_and_their_collectives_equal_the_truth(name: str, traces: Path, truth: dict[str, Any]) -> None:
    file = f"tf221_cpu/{name}.xplane.pb"
    trace = read(traces / file)
    assert trace.origin_ns == truth[file]["task_environment"]["profile_start_time"]
    device = analyse([trace]).hosts[0].devices[0]
    found = [
        {"step": int(number), "step_ps": part.span_ps, "collective_union_ps": part.totals["communication"]}
        for number, part in zip(device.steps.number, device.parts, strict=True)
    ]
    wanted = [{key: step[key] for key in found[0]} for step in truth[file]["host"]["steps"]]
    assert device.steps.source == "markers"
    assert found == wanted


def test_asynchronous_windows_add_copies_only_where_the_trace_has_them(traces: Path) -> None:
    """Chip 0 alone has a line of asynchronous windows: its copies start early and run beside other copies."""
    trace = read(traces / "xprof_tpu_inference/jax_tpu_v6e_4chip.xplane.pb")
    with_windows, without = (analyse([trace], async_windows=on).hosts[0].devices for on in (True, False))
    copies = [(a.window.totals["copy"], b.window.totals["copy"]) for a, b in zip(with_windows, without, strict=True)]
    assert copies[0][0] > copies[0][1] == 76_048_368_789_840
    assert all(a == b for a, b in copies[1:])


def test_runs_of_chips_that_count_apart_are_joined_by_their_number(traces: Path) -> None:
    """Chip 0 was given two programs more, so its run ids are two ahead; starts by the protobuf library."""
    path = traces / "xprof_tpu_inference/jax_tpu_v6e_4chip.xplane.pb"
    starts = []
    for plane in message_class("Space").FromString(path.read_bytes()).planes:
        names = {entry.key: entry.value.name for entry in plane.event_metadata}
        for line in plane.lines:
            if line.name == b"XLA Modules":
                events = [message_class("Event").FromString(raw) for raw in line.events]
                runs = [event for event in events if names[event.metadata_id].startswith(b"jit_f(")]
                starts.append(sorted(line.timestamp_ns * 1000 + event.offset_ps for event in runs))
    wanted = [max(at) - min(at) for at in zip(*starts, strict=True)]
    skews = answer([path]).document["start_skew"]
    assert [skew["skew_ps"] for skew in skews] == wanted
    assert max(wanted) < 250 * 10**9


def test_gpus_of_one_host_have_steps_of_their_own(traces: Path) -> None:
    """Figures of the recorded file's description; other tools merge the two devices into one step."""
    found = answer([traces / "xprof_gpu_multi_worker/tf_8xV100_multi_worker.xplane.pb"])
    parts = {
        device["device"]: (device["steps"][0]["span_ps"], device["steps"][0]["parts"]["compute"])
        for device in found.document["hosts"][0]["devices"]
        if device["step_source"] == "steps line"
    }
    assert parts == {
        "/device:GPU:4": (19_865_491_000, 14_825_385_000),
        "/device:GPU:6": (21_310_352_000, 14_865_363_000),
    }
    (skew,) = found.document["start_skew"]
    assert round(skew["skew_ps"] / 1e9, 2) == 647.56
    assert skew["last"].endswith("/device:GPU:6")
    notes = " ".join(found.document["honesty"]["notes"])
    assert "/device:GPU:0 has no events" in notes


@pytest.mark.parametrize("name", [*XPLANES, "tf221_cpu/mw_w0"])
def test_every_document_keeps_to_the_exported_schema(name: str, traces: Path) -> None:
    document = answer([traces / f"{name}.xplane.pb"]).document
    shape = TraceShape.model_validate(document)
    assert shape.model_dump(mode="json", by_alias=True, exclude_unset=True) == document


def test_copies_carry_the_bytes_that_cupti_tells(traces: Path) -> None:
    """GPU:1 of the recorded file: 19 copies; bytes by reading every `size:` with the protobuf library."""
    path = traces / "xprof_gpu_multi_worker/tf_8xV100_multi_worker.xplane.pb"
    (plane,) = [p for p in message_class("Space").FromString(path.read_bytes()).planes if p.name == b"/device:GPU:1"]
    keys = {entry.key: entry.value.name for entry in plane.stat_metadata}
    events = [message_class("Event").FromString(raw) for line in plane.lines for raw in line.events]
    told = [
        stat.str_value.decode()
        for event in events
        for stat in event.stats
        if keys[stat.metadata_id] == b"memcpy_details"
    ]
    wanted = sum(int(text.partition("size:")[2].split()[0]) for text in told)
    device = answer([path]).document["hosts"][0]["devices"][0]
    (copies,) = device["copies"]
    assert (device["device"], copies["name"], copies["count"]) == ("/device:GPU:1", "MemcpyH2D", 19)
    assert copies["bytes"] == wanted > 0
    assert copies["bandwidth"] == pytest.approx(wanted / (copies["busy_ps"] * 1e-12))


def pair(traces: Path, name: str) -> Answer:
    return answer([traces / f"tf221_cpu/{name}_w{rank}.xplane.pb" for rank in (0, 1)])


def test_host_collectives_are_communication_and_join_over_hosts(traces: Path, truth: dict[str, Any]) -> None:
    found = pair(traces, "mw")
    steps = [step for host in found.document["hosts"] for step in host["devices"][0]["steps"]]
    share = sum(step["totals"]["communication"] for step in steps) / sum(step["span_ps"] for step in steps)
    assert share > 0.6
    assert len(found.collectives) == 8
    for one in found.collectives:
        assert (one.type, one.members, len(one.arrivals_ps), one.size) == ("all_reduce", 2, 2, None)
    # Starts by the recorded answers, on the earlier file's axis.
    files = [f"tf221_cpu/mw_w{rank}.xplane.pb" for rank in (0, 1)]
    begins = [truth[file]["task_environment"]["profile_start_time"] for file in files]
    wanted = sorted(
        (call["start_ps"] + (begin - min(begins)) * 1000, call["dur_ps"])
        for file, begin in zip(files, begins, strict=True)
        for call in truth[file]["host"]["collectives"]["CollectiveReduceV2"]
    )
    assert sorted(at for one in found.collectives for at in one.arrivals_ps.values()) == [at for at, _ in wanted]
    assert "vm#2" in " ".join(found.document["honesty"]["notes"])


def test_a_delay_that_prefetching_hides_makes_no_straggler(traces: Path) -> None:
    """Worker 1's input was delayed, but its consumer blocks 0.76 ms in all."""
    found = pair(traces, "mw_slow")
    assert found.document["stragglers"] == []
    assert found.document["straggler_verdict"]["answer"] == "none"
    waits = [
        round(sum(step["parts"]["input_wait"] for step in host["devices"][0]["steps"]) / 1e9, 2)
        for host in found.document["hosts"]
    ]
    assert waits[1] == 0.76


def kineto_trace(path: Path, as_float: bool) -> Analysed:
    """`as_float` first rounds begins and ends as a float64 holds them, which is how the other tool computes."""
    data = gzip.decompress(path.read_bytes())
    if as_float:
        document = msgspec.json.decode(data)
        for event in document["traceEvents"]:
            if "dur" in event:
                start = float(event["ts"])
                event["ts"], event["dur"] = start, (start + float(event["dur"])) - start
        data = json.dumps(document, default=str).encode()
    return analyse([kineto.read(data, path.name)])


@pytest.mark.parametrize("name", KINETO)
def test_kineto_traces_equal_what_tracelens_prints(name: str, traces: Path) -> None:
    """Within 0.1 us, after time stamps are rounded to the float64 that TraceLens adds; see the next test."""
    file = traces / "kineto" / f"{name}.json.gz"
    wanted = json.loads((traces / "kineto/expected.json").read_text())[file.name]["tracelens_HEAD_compute_metrics_us"]
    (device,) = kineto_trace(file, as_float=True).hosts[0].devices
    parts, totals = device.window.parts, device.window.totals
    found = {
        "computation_time": parts["compute"],
        "exposed_comm_time": parts["exposed_communication"],
        "exposed_memcpy_time": parts["exposed_copy"],
        "idle_time": parts["input_wait"] + parts["host_overhead"] + parts["idle"],
        "total_time": device.window.span_ps,
        "total_comm_time": totals["communication"],
        "total_memcpy_time": totals["copy"],
    }
    assert {key: ps / US for key, ps in found.items()} == pytest.approx({key: wanted[key] for key in found}, abs=0.1)


def test_decimal_time_stamps_are_exact_at_epoch_times(traces: Path) -> None:
    """In the one file whose stamps are epoch microseconds a float64 keeps a quarter of one: 22 us over all kernels."""
    file = traces / "kineto/hta_ns_resolution_rank-0.json.gz"
    exact, rounded = (kineto_trace(file, as_float).hosts[0].devices[0].window for as_float in (False, True))
    assert 20 * US < abs(exact.parts["compute"] - rounded.parts["compute"]) < 25 * US
    raw = gzip.decompress(file.read_bytes())
    kernels = [
        (event["ts"], event["dur"])
        for event in json.loads(raw, parse_float=Decimal)["traceEvents"]
        if event.get("cat") in ("kernel", "gpu_memset")
    ]
    covered, reach = Decimal(0), Decimal(0)
    for start, length in sorted(kernels):
        covered += max(Decimal(0), start + length - max(start, reach))
        reach = max(reach, start + length)
    assert exact.parts["compute"] == covered * US


def converted(trace: HostTrace) -> bytes:
    """A Kineto trace as an XSpace: the same names and times, launches by their correlation."""
    timeline = Timeline(host="converted")
    for line in trace.lines:
        rows = np.arange(line.first, line.stop)
        correlation = trace.stats.integers(rows, "correlation_id")
        names = trace.names_of(rows)
        events = [
            E(names[i], int(trace.start_ps[row]) / PS, int(trace.duration_ps[row]) / PS,
              **({"correlation_id": int(correlation[i])} if correlation[i] > 0 else {}))
            for i, row in enumerate(rows)
        ]  # fmt: skip
        timeline.line(line.plane, line.name, events)
    return timeline.bytes()


@pytest.mark.parametrize("name", ["hta_nccl_data", "hta_sampled_rank-0", "tracelens_mi300_resnet_act_checkpoint"])
def test_nccl_kernels_give_the_same_numbers_from_both_readers(name: str, traces: Path) -> None:
    path = traces / "kineto" / f"{name}.json.gz"
    first = kineto.read(gzip.decompress(path.read_bytes()), path.name)
    second = xplane.read(converted(first), "converted")
    (a,), (b,) = (analyse([trace]).hosts[0].devices for trace in (first, second))
    assert (a.device.name, a.window) == (b.device.name, b.window)
    assert a.window.parts["exposed_communication"] > 0
    assert launch_times(first, a.device).tolist() == launch_times(second, b.device).tolist()


@pytest.mark.parametrize("name", ["hta_nccl_data", "hta_sampled_rank-0"])
def test_kernels_of_the_iterations_that_hta_keeps(name: str, traces: Path) -> None:
    """HTA drops what the last profiler step launched, and rounds begins up and ends down: within 1 us an event.

    Its compute counts no memsets; its kernel time is first begin to last end. In the MI300X file it keeps other kernels
    (56.5 ms of 68.0), by a rule that we have not found.
    """
    path = traces / "kineto" / f"{name}.json.gz"
    wanted = json.loads((traces / "kineto/expected.json").read_text())[path.name]["hta_HEAD_temporal_breakdown_us"]
    trace = kineto.read(gzip.decompress(path.read_bytes()), path.name)
    (answered,) = analyse([trace]).hosts[0].devices
    device, marked = answered.device, host_steps(trace)
    assert marked is not None
    launched = launch_times(trace, device)
    memset = np.array(["emset" in name for name in trace.names_of(device.rows)])
    kept = launched < int(marked.start[-1])
    compute = device.rows[kept & (device.kind == Kind.COMPUTE) & ~memset]
    every = device.rows[kept]
    total = int(trace.end_ps[every].max() - trace.start_ps[every].min())
    assert total / US == pytest.approx(wanted["kernel_time(us)"], abs=2)
    covered = union(trace.start_ps[compute], trace.end_ps[compute]).total
    assert covered / US == pytest.approx(wanted["compute_time(us)"], abs=compute.size)
