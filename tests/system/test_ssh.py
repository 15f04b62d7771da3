"""Two hosts behind real sshd's, in network namespaces: ranks without TensorFlow, so that faults take no longer than they
must. What is left on the hosts is looked for after every one."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import ssh_hosts
import toy_bench as toy
import toy_hosts

from tfscale.suite.cluster import Cluster
from tfscale.suite.launch import Bench, launch
from tfscale.suite.launchers.errors import LaunchError
from tfscale.suite.launchers.ssh import SshLauncher
from tfscale.suite.watch import Outcome

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(ssh_hosts.missing() is not None, reason=str(ssh_hosts.missing())),
]
SILENCE_S = 3.0


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssh_hosts.Hosts]:
    with ssh_hosts.hosts(tmp_path_factory.mktemp("ssh") / "hosts") as hosts:
        yield hosts


@pytest.fixture
def launcher(machines: ssh_hosts.Hosts, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshLauncher]:
    toy.use(monkeypatch)
    cluster = Cluster.model_validate(
        {"hosts": ["node1", "root@node2"], "ssh_options": ["-F", str(machines.config)], "shared_disk": False}
    )
    before = toy_hosts.agents()
    with SshLauncher(cluster, worker=toy.WORKER, silence_s=SILENCE_S) as ranks:
        yield ranks
    toy_hosts.assert_gone(toy_hosts.agents() - before, within_s=25)


def run(launcher: SshLauncher, preset: str, folder: Path, on_event: Any = lambda *_: None) -> tuple[Outcome, float]:
    bench = Bench(launcher, toy.PLACE, toy.QUICK, strategy_of=lambda case: toy.Spread())
    begun = time.monotonic()
    launched = launch(bench, toy.case(preset, hosts=2), 0, folder, "timed", on_event, lambda: False)
    return launched.outcome, time.monotonic() - begun


def test_ranks_reach_each_other_by_the_address_that_ssh_came_to(
    launcher: SshLauncher, machines: ssh_hosts.Hosts, tmp_path: Path
) -> None:
    bench = Bench(launcher, toy.PLACE, toy.QUICK, strategy_of=lambda case: toy.Spread())
    launched = launch(bench, toy.case(hosts=2), 0, tmp_path, "timed", lambda *_: None, lambda: False)
    assert launched.outcome == Outcome(None)
    hosts = [address.rpartition(":")[0] for address in launched.plans[0].cluster["worker"]]
    assert tuple(hosts) == machines.addresses
    assert "rank 1 is done" in (tmp_path / "rank1/log.txt").read_text()
    network = launcher.cluster.model_copy(update={"network": f"{machines.addresses[0]}/24"})
    launcher.cluster = network
    assert tuple(host.address for host in launcher.hosts(toy.case(hosts=2))) == machines.addresses
    launcher.cluster = launcher.cluster.model_copy(update={"network": "ib7"})
    with pytest.raises(LaunchError, match=r"host node1: cluster.network 'ib7' is no interface .*eth0 \(10\.231"):
        launcher.hosts(toy.case(hosts=2))


FAULTS = {
    "killed@1": ("lost_rank", 1),
    "frozen@1": ("hung", 1),
    "absent@1": ("never_started", 1),
    "unjoined@0": ("join_timeout", 0),
    "quits@1": ("lost_rank", 1),
    "disk@0": ("disk_full", 0),
}


@pytest.mark.parametrize("preset", FAULTS)
def test_a_fault_on_a_host_ends_in_its_class(preset: str, launcher: SshLauncher, tmp_path: Path) -> None:
    outcome, seconds = run(launcher, preset, tmp_path)
    assert outcome.failure is not None
    assert (outcome.failure.classification, outcome.failure.rank) == FAULTS[preset]
    assert seconds < 12


def test_a_cut_cable_is_found_named_and_survived(
    launcher: SshLauncher, machines: ssh_hosts.Hosts, tmp_path: Path
) -> None:
    run(launcher, "good", tmp_path / "before")
    launcher_of_slow = toy.QUICK.model_copy(update={"step_s": 60})
    bench = Bench(launcher, toy.PLACE, launcher_of_slow, strategy_of=lambda case: toy.Spread())

    def cut(rank: int, event: dict[str, Any]) -> None:
        if event.get("name") == "steady":
            machines.cut(2)

    begun = time.monotonic()
    try:
        launched = launch(bench, toy.case("silent@1", hosts=2), 0, tmp_path / "cut", "timed", cut, lambda: False)
    finally:
        machines.plug(2)
    failure = launched.outcome.failure
    assert failure is not None and (failure.classification, failure.rank) == ("lost_rank", 1)
    assert "host root@node2 is lost: nothing was heard of it for 3 s" in failure.reason
    assert time.monotonic() - begun < SILENCE_S + 12
    outcome, _ = run(launcher, "good", tmp_path / "after")
    assert outcome == Outcome(None)


def test_a_pair_that_cannot_talk_is_named_before_ranks_start(
    launcher: SshLauncher, machines: ssh_hosts.Hosts, tmp_path: Path
) -> None:
    """ssh reaches both, and one of them does not reach the other: a firewall between them."""
    machines.block(1, 2)
    try:
        outcome, _ = run(launcher, "good", tmp_path)
    finally:
        machines.unblock(1, 2)
    assert outcome.failure is not None and outcome.failure.classification == "never_started"
    assert f"node1 cannot reach root@node2 at {machines.addresses[1]} port" in outcome.failure.reason
    assert not (tmp_path / "rank0/log.txt").exists()


def test_an_address_of_another_host_is_told(launcher: SshLauncher, tmp_path: Path) -> None:
    entries = [{"target": "node1"}, {"target": "node2", "address": "10.231.255.9"}]
    launcher.cluster = Cluster.model_validate({**launcher.cluster.model_dump(), "hosts": entries})
    outcome, _ = run(launcher, "good", tmp_path)
    assert outcome.failure is not None and outcome.failure.classification == "never_started"
    assert "host node2: 10.231.255.9 port" in outcome.failure.reason


def test_the_harness_killed_leaves_nothing_on_the_hosts(machines: ssh_hosts.Hosts, tmp_path: Path) -> None:
    """SIGKILL: nobody tells the agents; their input ends."""
    import subprocess

    before = toy_hosts.agents()
    script = f"""
import sys; sys.path.insert(0, {str(toy.HERE)!r})
import toy_bench as toy
from pathlib import Path
from tfscale.suite.cluster import Cluster
from tfscale.suite.launchers.ssh import SshLauncher
from tfscale.suite.launch import Bench, launch
cluster = Cluster(hosts=["node1", "node2"], ssh_options=["-F", {str(machines.config)!r}], shared_disk=False)
with SshLauncher(cluster, worker=toy.WORKER) as ranks:
    bench = Bench(ranks, toy.PLACE, toy.QUICK.model_copy(update={{"step_s": 60}}), strategy_of=lambda case: toy.Spread())
    show = lambda rank, event: print(event.get("name"), flush=True)
    launch(bench, toy.case("silent@1", hosts=2), 0, Path({str(tmp_path)!r}), "timed", show, lambda: False)
"""
    environment = {**os.environ, "PYTHONPATH": str(toy.HERE)}
    harness = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    assert harness.stdout is not None
    assert any(line.strip() == "steady" for line in harness.stdout)
    assert len(toy_hosts.agents() - before) == 2
    os.kill(harness.pid, signal.SIGKILL)
    harness.wait()
    toy_hosts.assert_gone(toy_hosts.agents() - before, within_s=20)


def test_words_that_a_remote_shell_would_read_are_refused() -> None:
    for prefix in (["apptainer", "exec", "$(reboot)"], ["a;b"], ["two words"], ["~/image"], ["'quoted'"]):
        launcher = SshLauncher(Cluster(hosts=("node1",), prefix=prefix))
        with pytest.raises(LaunchError, match="would be read by a shell on node1"):
            launcher.argv(launcher.entries()[0])
    launcher = SshLauncher(Cluster(hosts=("node1",), prefix=["apptainer", "exec", "--nv", "/images/tf-2.21.sif"]))
    argv = launcher.argv(launcher.entries()[0])
    assert argv[argv.index("--") + 1] == "node1"
    assert argv[-6:-3] == ["exec", "--nv", "/images/tf-2.21.sif"]
