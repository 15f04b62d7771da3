"""Collectives and stragglers: bandwidths by nccl-tests' formulas, joins, waits, tests with known answers."""

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
from toy_timeline import PS, E, Timeline

from tfscale.suite.profiling import hlo, stragglers
from tfscale.suite.profiling.analysed import Analysed, analyse
from tfscale.suite.profiling.calls import type_of
from tfscale.suite.profiling.collectives import bus_bandwidth, collectives
from tfscale.suite.profiling.readers import xplane
from tfscale.suite.profiling.table import HostTrace

CPU, GPU = "/host:CPU", "/device:GPU:0"
START_NS = 10**18


@pytest.mark.parametrize(
    ("kind", "members", "factor"),
    [
        ("all_reduce", 2, 1.0), ("all_reduce", 4, 1.5), ("all_gather", 4, 0.75), ("reduce_scatter", 8, 0.875),
        ("all_to_all", 2, 0.5), ("broadcast", 8, 1.0), ("reduce", 8, 1.0),
    ],
)  # fmt: skip
def test_bus_bandwidth_is_that_of_nccl_tests(kind: str, members: int, factor: float) -> None:
    """1 GB in 1 ms is 1 TB/s of algorithm bandwidth."""
    assert bus_bandwidth(kind, 10**9, 10**9, members) == pytest.approx(factor * 1e12)


def test_an_unknown_size_has_no_bandwidth() -> None:
    assert bus_bandwidth("all_reduce", None, 10**9, 2) is None
    assert bus_bandwidth("send_receive", 10**9, 10**9, 2) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_half(ncclDevComm*, unsigned long)", "reduce_scatter"),
        ("ncclKernel_AllGather_RING_LL_Sum_int8_t", "all_gather"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send_receive"),
        ("ncclDevKernel_Generic(ncclDevComm*)", "unknown"),
        ("sgd/CollectiveReduceV2:CollectiveReduceV2", "all_reduce"),
        ("x/CollectiveReduceScatterV2:CollectiveReduceScatterV2", "reduce_scatter"),
        ("x/CollectiveGatherV2:CollectiveGatherV2", "all_gather"),
        ("CollectiveBcastSendV2", "broadcast"),
        ("ncclReduceKernel_Reduce_RING", "reduce"),
        ("all-reduce fusion", "all_reduce"),
        ("collective-permute", "send_receive"),
        ("void vllm::cross_device_reduce_1stage<__half, 2>", "all_reduce"),
    ],
)
def test_types(text: str, kind: str) -> None:
    assert type_of(text) == kind


def test_hlo_shapes_and_groups() -> None:
    assert hlo.shape_bytes("f32[5,1024,1024,256]{3,2,1,0:T(8,128)}") == 5 * 1024 * 1024 * 256 * 4
    assert hlo.shape_bytes("%ar = (bf16[8]{0}, s32[2,2]{1,0}) all-reduce(bf16[8]{0} %a)") == 16 + 16
    assert hlo.shape_bytes("%x = pred[] compare(f32[] %a)") == 1
    assert hlo.shape_bytes("no shape here") is None
    assert hlo.shape_bytes("q99[4]") is None
    # arange(8).reshape(2, 4).T.reshape(4, 2), by hand.
    assert hlo.replica_groups("replica_groups=[4,2]<=[2,4]T(1,0), use") == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert hlo.replica_groups("replica_groups=[2,2]<=[4]") == [(0, 1), (2, 3)]
    assert hlo.replica_groups("replica_groups={{0,2},{1,3}}, x") == [(0, 2), (1, 3)]
    assert hlo.replica_groups("replica_groups={}") is None
    assert hlo.replica_groups("replica_groups=[3,2]<=[2,4]") is None


def worker(
    name: str, arrivals: list[float], *, shift_us: int = 0, work: str = "compute", step_us: int = 1000
) -> HostTrace:
    """A host whose collective of each step begins `arrivals` us into it and ends at 900; before it, it works.

    The first step begins at 100 us; the profile of the host began `shift_us` late, and its times count from there.
    """
    timeline = Timeline(host=name, start_ns=START_NS + shift_us * 1000)
    python, compute, collective, data = [], [], [], []
    for step, arrival in enumerate(arrivals):
        begin = 100 + step * step_us - shift_us
        python += [E("train", begin, step_us, step_num=step, _r=1), E("KernelAndDeviceFunc::Run", begin, step_us)]
        length = arrival - 300 if work == "compute" else 100
        compute.append(E("a/MatMul:MatMul", begin + (0 if work == "compute" else arrival - 100), length))
        if work == "input":
            data.append(E("IteratorGetNextOp::DoCompute", begin, arrival - 100))
        event = E(
            "x/CollectiveReduceV2:CollectiveReduceV2", begin + arrival, 900 - arrival, group_key=1, instance_key=step
        )
        collective.append(event)
    timeline.line(CPU, "python", python)
    timeline.line(CPU, "tf_Compute/1", compute)
    timeline.line(CPU, "tf_data_iterator_get_next/1", data)
    timeline.line(CPU, "collective_ops/1", collective)
    return xplane.read(timeline.bytes(), f"{name}.xplane.pb")


def noise(count: int, base: float, seed: int) -> list[float]:
    return [base + float(x) for x in np.random.default_rng(seed).integers(-40, 40, count)]


def test_arrivals_waits_and_duration() -> None:
    found = collectives(analyse([worker("a", [400, 500]), worker("b", [600, 450])]), 0)
    first, second = found
    assert first.arrivals_ps == {"a CPU": 500 * PS, "b CPU": 700 * PS}
    assert first.waits_ps == {"a CPU": 200 * PS, "b CPU": 0}
    assert (first.last, first.duration_ps, first.duration_from) == ("b CPU", 300 * PS, "last end - last arrival")
    assert (second.step, second.last, second.duration_ps) == (1, "a CPU", 400 * PS)


def test_hosts_are_put_on_one_axis_by_when_their_profiles_began() -> None:
    """The second host's profile began 50 us later; its own times count from there."""
    (first,) = collectives(analyse([worker("a", [400]), worker("b", [600], shift_us=50)]), 0)
    assert first.arrivals_ps == {"a CPU": 500 * PS, "b CPU": 700 * PS}


@pytest.mark.parametrize(
    ("bound", "last", "waits"), [(150 * PS, "b CPU", True), (250 * PS, None, True), (None, None, False)]
)
def test_differences_under_the_clocks_bound_are_not_resolved(bound: int | None, last: str | None, waits: bool) -> None:
    (first,) = collectives(analyse([worker("a", [400]), worker("b", [600])]), bound)
    assert first.last == last
    assert (first.waits_ps is not None) == waits
    if bound is None:
        assert (first.duration_ps, first.duration_from) == (300 * PS, "shortest over ranks")


def verdict(analysed: Analysed) -> stragglers.Verdict:
    return stragglers.find(analysed, collectives(analysed, 0))


@pytest.mark.parametrize("work", ["compute", "input"])
def test_a_late_worker_is_named_with_its_cause(work: str) -> None:
    found = verdict(analyse([worker("a", noise(12, 500, 1)), worker("b", noise(12, 650, 2), work=work)]))
    (late,) = found.stragglers
    assert (found.answer, late.rank, late.cause) == ("stragglers", "b CPU", work)
    assert 100 * PS < late.lateness_ps < 200 * PS
    assert late.p < 0.01
    assert late.share == pytest.approx(late.lateness_ps / (1000 * PS))


def test_nobody_is_late_when_both_are_by_turns() -> None:
    found = verdict(analyse([worker("a", [450.0, 550.0] * 10), worker("b", [550.0, 450.0] * 10)]))
    assert (found.answer, found.stragglers) == ("none", ())


def test_at_most_one_innocent_trace_in_twenty_is_accused() -> None:
    """Two equal ranks, 20 steps, 400 traces: the share of accusations within two standard errors of 5 %."""
    draws = np.random.default_rng(0).normal(size=(400, 20))
    accused = [min(stragglers.holm([stragglers.signed_rank_p(d), stragglers.signed_rank_p(-d)])) < 0.05 for d in draws]
    assert np.mean(accused) <= 0.05 + 2 * (0.05 * 0.95 / 400) ** 0.5


def test_less_than_a_hundredth_of_the_step_is_no_straggler() -> None:
    found = verdict(analyse([worker("a", [500.0] * 20), worker("b", [505.0] * 20)]))
    assert (found.answer, found.stragglers) == ("none", ())


@pytest.mark.parametrize(("steps", "answer"), [(5, "too few steps"), (6, "stragglers")])
def test_two_ranks_need_six_steps(steps: int, answer: str) -> None:
    """2 ranks x 2^-5 is 0.0625: no outcome of five steps reaches 5 %."""
    late = [600 + 10.0 * i for i in range(steps)]
    assert verdict(analyse([worker("a", [400.0] * steps), worker("b", late)])).answer == answer


def test_one_rank_alone_cannot_be_compared() -> None:
    assert verdict(analyse([worker("a", [400.0] * 8)])).answer == "one rank"


@pytest.mark.parametrize(
    "values", [[5.0, -1.0, 3.5, 2.0, 7.0, -4.0], [1.0, -1.0, 2.0, 2.0, 0.0, -2.0, 3.0], [-1.0, -1.0], [3.0]]
)
def test_the_signed_rank_p_by_counting_all_signs(values: list[float]) -> None:
    """Every assignment of signs to the mean ranks of the values that are not zero."""
    nonzero = np.array([value for value in values if value])
    ranks = [np.mean(np.flatnonzero(np.sort(np.abs(nonzero)) == abs(value)) + 1) for value in nonzero]
    observed = sum(rank for rank, value in zip(ranks, nonzero, strict=True) if value > 0)
    sums = [sum(r for r, s in zip(ranks, signs, strict=True) if s) for signs in product((0, 1), repeat=len(ranks))]
    wanted = sum(total >= observed for total in sums) / 2 ** len(ranks)
    assert stragglers.signed_rank_p(values) == pytest.approx(wanted)


@pytest.mark.parametrize(("count", "method"), [(12, "exact"), (50, "exact"), (51, "asymptotic"), (400, "asymptotic")])
def test_the_signed_rank_p_is_that_of_scipy(count: int, method: str) -> None:
    from scipy.stats import wilcoxon

    values = np.random.default_rng(count).normal(0.2, 1, count)
    wanted = wilcoxon(values, alternative="greater", method=method).pvalue
    assert stragglers.signed_rank_p(values.tolist()) == pytest.approx(wanted, rel=1e-9)


def test_holm_by_hand() -> None:
    """Holm 1979: 0.01 x 3, then 0.02 x 2, then max(0.04, 0.04 x 1)."""
    assert stragglers.holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])


def test_nccl_annotations_give_type_and_size() -> None:
    timeline = Timeline().line(
        GPU,
        "Stream #1(Kernel)",
        [E("ncclDevKernel_Generic", 0, 100, buffer_size=4_000_000, collective_type="all_reduce"), E("gemm", 0, 50)],
    )
    (one,) = collectives(analyse([xplane.read(timeline.bytes(), "f")]), 0)
    assert (one.type, one.size) == ("all_reduce", 4_000_000)
    assert one.algorithm_bandwidth == pytest.approx(4e10)


@pytest.mark.parametrize(
    ("nodes", "last"), [(("x/CollectiveReduceV2", "x/CollectiveReduceV2_1"), "CPU replica 0"), (("x", "x"), None)]
)
def test_replicas_of_one_process_are_told_apart_by_their_nodes(nodes: tuple[str, str], last: str | None) -> None:
    timeline = Timeline().line(CPU, "tf_Compute/1", [E("a/MatMul:MatMul", 0, 1)])
    for thread, (node, start) in enumerate(zip(nodes, (30, 10), strict=True)):
        event = E(f"{node}:CollectiveReduceV2", start, 50 - start, group_key=1, instance_key=7)
        timeline.line(CPU, f"collective_ops/{thread}", [event])
    (one,) = collectives(analyse([xplane.read(timeline.bytes(), "f")]), 0)
    assert (one.members, one.last, one.duration_ps) == (2, last, 20 * PS)
