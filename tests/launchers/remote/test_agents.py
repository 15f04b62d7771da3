"""Ranks behind agents: real processes and pipes, toys without TensorFlow. What the ranks wrote comes back, whatever ends
ends on every host, and nothing is left."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "toy"))
import toy_bench as toy
import toy_hosts

from tfscale.suite.launch import Bench, launch
from tfscale.suite.launchers import ports, procfs
from tfscale.suite.launchers.errors import LaunchError
from tfscale.suite.launchers.remote.launcher import places
from tfscale.suite.plan import RankPlan
from tfscale.suite.rankfiles import read_result
from tfscale.suite.topology import Topology
from tfscale.suite.watch import Outcome

pytestmark = pytest.mark.system


@pytest.fixture(params=[True, False], ids=["shared", "apart"])
def hosts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[toy_hosts.PipeLauncher]:
    toy.use(monkeypatch)
    with toy_hosts.launcher(shared_disk=request.param) as launcher:
        yield launcher


def run(
    launcher: toy_hosts.PipeLauncher, preset: str, folder: Path, **axes: Any
) -> tuple[list[RankPlan], Outcome, float]:
    bench = Bench(launcher, toy.PLACE, toy.QUICK, strategy_of=lambda case: toy.Spread())
    begun = time.monotonic()
    launched = launch(bench, toy.case(preset, hosts=2, **axes), 0, folder, "timed", lambda *_: None, lambda: False)
    return launched.plans, launched.outcome, time.monotonic() - begun


def test_what_ranks_write_is_there_when_they_have_said_so(hosts: toy_hosts.PipeLauncher, tmp_path: Path) -> None:
    plans, outcome, _ = run(hosts, "good", tmp_path)
    assert outcome == Outcome(None)
    assert [plan.host for plan in plans] == [0, 1]
    for plan in plans:
        assert read_result(Path(plan.directory)).rank == plan.rank
        launched = json.loads((Path(plan.directory) / "launch.json").read_text())
        assert launched["effective"]["launcher"] == "pipes"
        assert "is done" in (Path(plan.directory) / "log.txt").read_text()
        clock = json.loads((Path(plan.directory) / "clock.json").read_text())
        assert clock["monotonic_offset_ns"] == clock["monotonic_bound_ns"] == 0.0  # one machine, one clock
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


FAULTS = {
    "killed@1": ("lost_rank", 1, "ended by SIGKILL"),
    "frozen@1": ("hung", 1, "state T"),
    "absent@1": ("never_started", 1, "within 2 s"),
    "quits@0": ("lost_rank", 0, "exited with code 9"),
    "disk@1": ("disk_full", 1, "No space left"),
}


@pytest.mark.parametrize("preset", FAULTS)
def test_a_fault_ends_in_its_class_on_the_host_of_its_rank(
    preset: str, hosts: toy_hosts.PipeLauncher, tmp_path: Path
) -> None:
    plans, outcome, seconds = run(hosts, preset, tmp_path)
    classification, rank, words = FAULTS[preset]
    assert outcome.failure is not None
    assert (outcome.failure.classification, outcome.failure.rank) == (classification, rank)
    assert words in outcome.failure.reason
    assert seconds < 8
    pids = [json.loads((Path(plan.directory) / "launch.json").read_text())["pid"] for plan in plans]
    assert not [pid for leader in pids for pid in procfs.session_members(leader)]
    assert not any(ports.is_listened_on(port) for port in toy.ports_of(plans))
    if classification in ("hung", "never_started"):
        assert outcome.stacks is not None


def test_a_host_that_dies_is_named_and_called_again(hosts: toy_hosts.PipeLauncher, tmp_path: Path) -> None:
    run(hosts, "good", tmp_path / "before")
    victim = hosts._hosts[1].facts["pid"]
    bench = Bench(hosts, toy.PLACE, toy.QUICK, strategy_of=lambda case: toy.Spread())

    def kill(rank: int, event: dict[str, Any]) -> None:
        if event.get("name") == "steady":
            os.kill(victim, signal.SIGKILL)

    launched = launch(bench, toy.case("silent@1", hosts=2), 0, tmp_path / "during", "timed", kill, lambda: False)
    failure = launched.outcome.failure
    assert failure is not None and failure.classification == "lost_rank" and failure.rank == 1
    assert "host host1 is lost: the connection ended" in failure.reason
    _, outcome, _ = run(hosts, "good", tmp_path / "after")
    assert outcome == Outcome(None)


def test_a_silent_host_is_lost_and_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stopped agent is as a cut cable: no reset, no end of file."""
    toy.use(monkeypatch)
    with toy_hosts.launcher(silence_s=3.0) as hosts:
        run(hosts, "good", tmp_path / "before")
        victim = hosts._hosts[1].facts["pid"]
        bench = Bench(hosts, toy.PLACE, toy.QUICK.model_copy(update={"step_s": 60}), strategy_of=lambda c: toy.Spread())

        def freeze(rank: int, event: dict[str, Any]) -> None:
            if event.get("name") == "steady":
                os.kill(victim, signal.SIGSTOP)

        launched = launch(bench, toy.case("silent@1", hosts=2), 0, tmp_path / "now", "timed", freeze, lambda: False)
        failure = launched.outcome.failure
        assert failure is not None and failure.classification == "lost_rank"
        assert "host host1 is lost: nothing was heard of it for 3 s" in failure.reason
    toy_hosts.assert_gone({victim}, within_s=10)


def test_agents_end_with_their_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    toy.use(monkeypatch)
    with toy_hosts.launcher() as hosts:
        run(hosts, "good", tmp_path)
        pids = [host.facts["pid"] for host in hosts._hosts]
        assert set(pids) <= toy_hosts.agents()
    toy_hosts.assert_gone(set(pids), within_s=10)


def test_more_hosts_than_there_are(hosts: toy_hosts.PipeLauncher) -> None:
    with pytest.raises(LaunchError, match=r"3 hosts are needed, and launcher pipes has 2 \(host0, host1\)"):
        hosts.hosts(toy.case("good", devices=3, hosts=3))


def test_an_agent_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    toy.use(monkeypatch)
    with toy_hosts.launcher() as hosts:
        hosts.before = [[], [sys.executable, "-c", "import sys; sys.exit('no such image')"]]
        with pytest.raises(LaunchError, match=r"host host1 is lost: .*no such image"):
            hosts.hosts(toy.case("good", hosts=2))


def test_a_described_network_says_which_host_is_whose() -> None:
    """Two racks of two: `order: topology` keeps neighbours together, whatever the order in which the hosts are named."""
    described = Topology.model_validate({"racks": {"a": {}, "b": {}}, "hosts": ["a", "b", "a", "b"]})
    case = toy.case(devices=4, hosts=4, topology=described)
    assert places(case) == [0, 1, 2, 3]
    assert places(case.with_values(order="topology")) == [0, 2, 1, 3]
    assert places(toy.case(devices=3, hosts=3)) == [0, 1, 2]
    assert toy_hosts.PipeLauncher.refuses(toy.case(devices=4, hosts=4, topology=described)) is None
