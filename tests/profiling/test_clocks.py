"""Hosts on one axis by the ends of collectives: offsets, bounds and what is not resolved, known by construction."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
from toy_timeline import PS, E, Timeline

from tfscale.harness import app
from tfscale.suite.profiling.answer import Answer, answer
from tfscale.suite.profiling.clocks import LEAST, refine
from tfscale.suite.profiling.readers import kineto
from tfscale.suite.profiling.table import TraceError

GPU, CPU, TPU = "/device:GPU:0", "/host:CPU", "/device:TPU:0"
START_NS = 10**18
NAME = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def rank(
    host: str, arrivals: list[float], *, ahead_us: int = 0, jitter: list[float] | None = None, name: str = NAME
) -> Timeline:
    """One GPU whose n-th all-reduce begins `arrivals[n]` us into its step of 1000 us and ends at 900, both by the true
    clock; the host's own clock is `ahead_us` ahead, and its reading of each end is off by `jitter`."""
    timeline = Timeline(host=host, start_ns=START_NS + ahead_us * 1000)
    late = jitter or [0.0] * len(arrivals)
    kernels = [E(name, 1000 * n + at, 900 + late[n] - at) for n, at in enumerate(arrivals)]
    timeline.line(GPU, "Stream #1(Kernel)", kernels)
    return timeline.line(GPU, "Steps", [E(str(n), 1000 * n, 1000) for n in range(len(arrivals))])


def read(folder: Path, *timelines: Timeline) -> Answer:
    paths = []
    for number, timeline in enumerate(timelines):
        paths.append(folder / f"{number}.xplane.pb")
        paths[-1].write_bytes(timeline.bytes())
    return answer(paths)


def test_clocks_that_are_apart_are_brought_together_by_the_ends(tmp_path: Path) -> None:
    """Host b's clock is 3 ms ahead. Its ends then come 3 ms late, so 3 ms are taken off and arrivals are the true ones."""
    found = read(tmp_path, rank("a", [400.0] * 8), rank("b", [600.0] * 8, ahead_us=3000))
    assert found.document["honesty"]["clock"]["bound_ps"] == 0
    assert "8 collectives" in found.document["honesty"]["clock"]["source"]
    for n, one in enumerate(found.collectives):
        assert one.arrivals_ps == {"a GPU:0": (1000 * n + 400) * PS, "b GPU:0": (1000 * n + 600) * PS}
        assert (one.waits_ps, one.last) == ({"a GPU:0": 200 * PS, "b GPU:0": 0}, "b GPU:0")
    # Each step begins at once on both by the true clock.
    assert [skew["skew_ps"] for skew in found.document["start_skew"]] == [0] * 8
    assert found.document["straggler_verdict"]["answer"] == "stragglers"


@pytest.mark.parametrize(("difference", "last"), [(50.0, "b GPU:0"), (30.0, None)])
def test_what_is_under_the_spread_of_the_ends_is_not_resolved(
    difference: float, last: str | None, tmp_path: Path
) -> None:
    """Ends are read up to 40 us off their median: differences of 50 us are told, of 30 are not."""
    jitter = [0.0, 40.0, -20.0, 0.0, 10.0, -10.0, 0.0]
    arrivals = [400.0] * len(jitter)
    found = read(
        tmp_path, rank("a", arrivals), rank("b", [at + difference for at in arrivals], ahead_us=70, jitter=jitter)
    )
    assert found.document["honesty"]["clock"]["bound_ps"] == 40 * PS
    for one in found.collectives:
        assert (one.waits_bound_ps, one.last) == (40 * PS, last)
    assert found.document["start_skew"] == []
    # 30 us a step, every step: beyond chance and 1 %, and still within what the offset may be wrong by.
    answers = {50.0: "stragglers", 30.0: "none"}
    assert found.document["straggler_verdict"]["answer"] == answers[difference]
    shown = CliRunner().invoke(app, ["trace", *(str(tmp_path / f"{n}.xplane.pb") for n in (0, 1))]).stdout
    assert ("not resolved" in shown) == (last is None)


@pytest.mark.parametrize(
    ("count", "name", "host"),
    [(LEAST - 1, NAME, "b"), (9, "ncclDevKernel_Broadcast_RING", "b"), (9, "ncclDevKernel_SendRecv", "b")],
)
def test_too_few_or_rooted_collectives_tell_no_offset(count: int, name: str, host: str, tmp_path: Path) -> None:
    arrivals = [400.0] * count
    found = read(tmp_path, rank("a", arrivals, name=name), rank(host, arrivals, ahead_us=70, name=name))
    assert found.document["honesty"]["clock"]["bound_ps"] is None
    assert "nobody measured" in found.document["honesty"]["clock"]["source"]
    assert all(one.waits_ps is None and one.last is None for one in found.collectives)
    assert found.document["start_skew"] == []
    assert found.document["straggler_verdict"]["answer"] == "not comparable"
    assert "clocks" in found.document["collectives"][0]["reason"]


def test_one_host_name_is_one_clock_and_is_left_alone(tmp_path: Path) -> None:
    found = read(tmp_path, rank("a", [400.0] * 8), rank("a", [600.0] * 8, ahead_us=3000))
    assert found.document["honesty"]["clock"] == {"source": "the same host: one clock", "bound_ps": 0}
    assert found.collectives[0].arrivals_ps["a#2 GPU:0"] == 3600 * PS


def test_rings_over_grpc_are_not_used(tmp_path: Path) -> None:
    hosts = []
    for name, ahead in (("a", 0), ("b", 3000)):
        timeline = Timeline(host=name, start_ns=START_NS + ahead * 1000)
        ring = [E("x:CollectiveReduceV2", 1000 * n, 500, group_key=1, instance_key=n) for n in range(9)]
        hosts.append(timeline.line(CPU, "collective_ops/1", ring))
    assert read(tmp_path, *hosts).document["honesty"]["clock"]["bound_ps"] is None


def test_three_clocks_by_hand() -> None:
    """Against clock 0: clock 1 is 5 ahead, off by at most 2; clock 2 is 7 behind, off by at most 3. Pairs: 2 + 3."""
    from tfscale.suite.profiling.calls import Call

    def ends(host: int, times: list[int]) -> list[Call]:
        return [
            Call(f"r{host}", "", host, "all_reduce", None, None, ("nccl", n), None, 0, at) for n, at in enumerate(times)
        ]

    true = np.arange(1, 8) * 1000
    calls = [
        *ends(0, true.tolist()),
        *ends(1, (true + 5 + [0, 2, 0, -1, 0, 0, 0]).tolist()),
        *ends(2, (true - 7 + [0, 0, -3, 0, 1, 0, 0]).tolist()),
    ]
    found = refine([0, 1, 2], calls)
    assert found is not None
    assert (found.offsets_ps, found.bound_ps) == ((0, -5, 7), 5)
    assert "7 collectives" in found.source


def test_files_without_an_epoch_are_joined_by_their_collectives_alone(tmp_path: Path) -> None:
    """Two ranks' Kineto files with arbitrary zeros: 250 us and 9 s."""
    paths = []
    for number, (zero, arrival) in enumerate(((250, 400), (9_000_000, 700))):
        events = [
            {"ph": "X", "name": NAME, "cat": "kernel", "ts": zero + 1000 * n + arrival, "dur": 900 - arrival,
             "args": {"device": 0, "stream": 7, "Group size": 2}}
            for n in range(8)
        ]  # fmt: skip
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps({"traceEvents": events, "distributedInfo": {"rank": number}}))
    found = answer(paths)
    assert found.document["origin_ns"] is None
    assert found.document["honesty"]["clock"]["bound_ps"] == 0
    assert {one.last for one in found.collectives} == {"rank 1 GPU:0"}
    assert {max(one.waits_ps.values()) for one in found.collectives if one.waits_ps} == {300 * PS}


def test_two_files_of_one_rank_are_different_jobs() -> None:
    """Four files, two jobs of two ranks each: calls are joined within a job."""
    from tfscale.suite.profiling.analysed import analyse
    from tfscale.suite.profiling.collectives import collectives

    def trace(number: int):  # type: ignore[no-untyped-def]
        event = {"ph": "X", "name": NAME, "cat": "kernel", "ts": 1, "dur": 5, "args": {"device": number, "stream": 7}}
        return kineto.read(json.dumps({"traceEvents": [event], "distributedInfo": {"rank": number}}).encode(), "f")

    found = collectives(analyse([trace(0), trace(1), trace(0), trace(1)]), None)
    assert [one.seen for one in found] == [2, 2]


def tpu(runs: list[tuple[str, int | None, float]], operations: list[tuple[str, float, float]], host: str) -> Timeline:
    """Modules (name, run id, begin; 100 us long) and operations (instruction, begin, length) of one chip."""
    modules = [E(name, at, 100, **({} if id_ is None else {"run_id": id_})) for name, id_, at in runs]
    timeline = Timeline(host=host).line(TPU, "XLA Modules", modules)
    of_name = {text: {"hlo_category": "all-reduce", "program_id": 1} for text, _, _ in operations}
    return timeline.line(TPU, "XLA Ops", [E(*one) for one in operations], of_name=of_name)


AR = "%all-reduce.1 = f32[8]{0} all-reduce(f32[8] %p), replica_groups={}"


def test_runs_of_a_module_are_joined_by_their_ids(tmp_path: Path) -> None:
    """The second host's capture missed the first run: by number its first would be joined with the other's first."""
    first = tpu([("f", n, 200 * n) for n in (1, 2, 3)], [(AR, 200 * n, 50) for n in (1, 2, 3)], "a")
    second = tpu([("f", n, 200 * n) for n in (2, 3)], [(AR, 200 * n + 10, 40) for n in (2, 3)], "a")
    found = read(tmp_path, first, second)
    assert [one.seen for one in found.collectives] == [1, 2, 2]
    assert [one.duration_ps for one in found.collectives[1:]] == [40 * PS, 40 * PS]
    steps = [[step["step"] for step in host["devices"][0]["steps"]] for host in found.document["hosts"]]
    assert steps == [[1, 2, 3], [2, 3]]


@pytest.mark.parametrize("ids", ["counted apart", "none"])
def test_the_nth_run_where_ids_are_not_the_same_runs(ids: str, tmp_path: Path) -> None:
    """One chip was given a conversion first, so its ids of `f` are one more."""
    own = {"counted apart": (lambda n: n + 1), "none": (lambda n: None)}[ids]
    first = tpu(
        [("convert", own(0), 0), *[("f", own(n), 200 * n) for n in (1, 2)]], [(AR, 200 * n, 50) for n in (1, 2)], "a"
    )
    second = tpu([("f", own(n - 1), 200 * n) for n in (1, 2)], [(AR, 200 * n + 10, 40) for n in (1, 2)], "a")
    found = read(tmp_path, first, second)
    assert [one.seen for one in found.collectives] == [2, 2]
    assert [skew["skew_ps"] for skew in found.document["start_skew"]] == [0, 0]


def test_an_asynchronous_collective_lasts_from_its_start_to_its_done(tmp_path: Path) -> None:
    """Two in flight at once; the done that began before the capture has no known length and is left out."""
    start = "%all-gather-start.{0} = (f32[4], f32[8]) all-gather-start(f32[4] %p), replica_groups={{{{0,1}}}}"
    done = "%all-gather-done.{0} = f32[8]{{0}} all-gather-done((f32[4], f32[8]) %all-gather-start.{0})"
    operations = [
        (done.format(9), 0, 1), (start.format(1), 10, 1), (start.format(2), 20, 1), (done.format(1), 50, 10),
        (done.format(2), 70, 10),
    ]  # fmt: skip
    timeline = Timeline().line(
        TPU, "XLA Ops", [E(text, at, length) for text, at, length in operations],
        of_name={text: {"hlo_category": "all-gather"} for text, _, _ in operations},
    )  # fmt: skip
    found = read(tmp_path, timeline).collectives
    assert [(one.type, one.start_ps, one.duration_ps, one.size) for one in found] == [
        ("all_gather", 10 * PS, 50 * PS, 32),
        ("all_gather", 20 * PS, 60 * PS, 32),
    ]


def test_the_size_of_a_reduce_scatter_is_the_total(tmp_path: Path) -> None:
    """The instruction's shape is one rank's part: 8 floats of 4 ranks."""
    text = "%rs = f32[8]{0} reduce-scatter(f32[32] %p), replica_groups={{0,1,2,3}}"
    timeline = Timeline().line(TPU, "XLA Ops", [E(text, 0, 1)], of_name={text: {"hlo_category": "reduce-scatter"}})
    (one,) = read(tmp_path, timeline).collectives
    assert (one.type, one.size, one.members) == ("reduce_scatter", 128, 4)


def recorded(folder: Path, clocks: dict[str, dict[str, float] | str], count: int = LEAST - 1) -> Answer:
    """Hosts a and b in log directories of their own; b's clock is 3 ms ahead; too few collectives tell the offset."""
    paths = []
    for host, arrival, ahead in (("a", 400.0, 0), ("b", 600.0, 3000)):
        place = folder / host / "plugins" / "profile" / "2026"
        place.mkdir(parents=True)
        paths.append(place / f"{host}.xplane.pb")
        paths[-1].write_bytes(rank(host, [arrival] * count, ahead_us=ahead).bytes())
        if host in clocks:
            told = clocks[host]
            (folder / host / "clock.json").write_text(told if isinstance(told, str) else json.dumps(told))
    return answer(paths)


def test_ping_pong_recorded_beside_the_traces_puts_hosts_on_one_axis(tmp_path: Path) -> None:
    """b is 3 ms ahead of a, known to 20 us: arrivals 200 us apart are resolved."""
    clocks = {"a": {"offset_ns": 0, "bound_ns": 0}, "b": {"offset_ns": 3_000_000, "bound_ns": 20_000}}
    found = recorded(tmp_path, clocks)
    assert found.document["honesty"]["clock"] == {
        "source": "profile start times, the hosts' clocks compared by ping-pong",
        "bound_ps": 20 * PS,
    }
    assert {one.last for one in found.collectives} == {"b GPU:0"}
    first = found.collectives[0].arrivals_ps
    assert first["b GPU:0"] - first["a GPU:0"] == 200 * PS


def test_a_bound_above_the_difference_resolves_nothing(tmp_path: Path) -> None:
    clocks = {"a": {"offset_ns": 0, "bound_ns": 0}, "b": {"offset_ns": 3_000_000, "bound_ns": 250_000}}
    assert {one.last for one in recorded(tmp_path, clocks).collectives} == {None}


def test_one_host_without_a_record_leaves_the_offset_unknown(tmp_path: Path) -> None:
    found = recorded(tmp_path, {"a": {"offset_ns": 0, "bound_ns": 0}})
    assert found.document["honesty"]["clock"]["bound_ps"] is None


def test_the_closer_of_ping_pong_and_collective_ends_counts(tmp_path: Path) -> None:
    clocks = {"a": {"offset_ns": 0, "bound_ns": 0}, "b": {"offset_ns": 3_100_000, "bound_ns": 200_000}}
    found = recorded(tmp_path, clocks, count=8)
    assert "8 collectives" in found.document["honesty"]["clock"]["source"]


@pytest.mark.parametrize("text", ["{", "[]", '{"offset_ns": 1}', '{"offset_ns": "x", "bound_ns": 1}'])
def test_a_damaged_record_is_named(text: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"clock\.json"):
        recorded(tmp_path, {"a": text})
