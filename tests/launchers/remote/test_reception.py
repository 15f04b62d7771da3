"""Agents that call in: real connections, real agents started as a pod or an MPI would start them."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "toy"))
import toy_bench as toy
import toy_hosts

from tfscale.suite.cluster import Cluster
from tfscale.suite.launch import Bench, launch
from tfscale.suite.launchers.errors import LaunchError
from tfscale.suite.launchers.kubernetes.launcher import KubernetesLauncher
from tfscale.suite.launchers.mpi import own_address
from tfscale.suite.launchers.ports import free_ports
from tfscale.suite.launchers.remote.reception import Reception
from tfscale.suite.watch import Outcome

pytestmark = pytest.mark.system
TOKEN = "only-this-set-knows-it"


def call(reception: Reception, *lines: bytes) -> bytes:
    """What a caller hears who says `lines`: nothing at all, and the connection is closed."""
    with socket.create_connection(("127.0.0.1", reception.port), timeout=15) as connection:
        connection.sendall(b"".join(lines))
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(100)


@pytest.fixture
def reception() -> Iterator[Reception]:
    desk = Reception("127.0.0.1", token=TOKEN)
    yield desk
    desk.close()


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        json.dumps({"token": "guessed", "index": 0}).encode() + b"\n",
        json.dumps({"index": 0}).encode() + b"\n",
        json.dumps({"token": TOKEN, "index": "x"}).encode() + b"\n",
        b"[1, 2]\n",
        b"{" * 100_000,
        b"\xff\xfe\n",
    ],
)
def test_who_does_not_show_the_token_is_hung_up_on(said: bytes, reception: Reception) -> None:
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):  # hung up on while it was still talking
        assert call(reception, said) == b""
    with pytest.raises(LaunchError, match=r"no agent of host number 0 .*did not call within 0"):
        reception.await_callers({0}, 0.1, lambda: None)


def test_hosts_that_call_are_told_apart(reception: Reception) -> None:
    callers = []
    for number in (1, 7, 0):
        connection = socket.create_connection(("127.0.0.1", reception.port))
        connection.sendall(json.dumps({"token": TOKEN, "index": number}).encode() + b"\n" + b"hello from %d\n" % number)
        callers.append(connection)
    found = reception.await_callers({0, 1}, 10, lambda: None)
    assert [found[number][1].readline() for number in (0, 1)] == [b"hello from 0\n", b"hello from 1\n"]
    for connection in callers:
        connection.close()
    with pytest.raises(LaunchError, match=r"number 2 .*: it has ended"):
        reception.await_callers({2}, 10, lambda: "it has ended")


def test_a_port_that_is_taken_is_named(reception: Reception) -> None:
    with pytest.raises(LaunchError, match=f"no agents can call 127.0.0.1 port {reception.port}: Address already"):
        Reception("127.0.0.1", reception.port)


def test_pods_call_and_run_ranks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As the pods of the manifests: --connect, a file with the token, the number from JOB_COMPLETION_INDEX."""
    toy.use(monkeypatch)
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    port = free_ports(1)[0]
    told = {
        "hosts": ["set-hosts-0-0.set", "set-hosts-0-1.set"],
        "kubernetes": {"image": "a/b:1", "claim": "c", "port": port},
    }
    cluster = Cluster.model_validate(told)
    command = [
        *toy_hosts.AGENT,
        "--connect",
        f"{own_address(cluster)}:{port}",
        "--token-file",
        str(token),
        "--patience",
        "20",
    ]
    agents = [
        subprocess.Popen(command, env={**os.environ, "JOB_COMPLETION_INDEX": str(number)}) for number in (1, 0)
    ]  # they call before anybody listens
    with KubernetesLauncher(cluster, token=token, worker=toy.WORKER) as launcher:
        bench = Bench(launcher, toy.PLACE, toy.QUICK, strategy_of=lambda case: toy.Spread())
        launched = launch(bench, toy.case(hosts=2), 0, tmp_path / "trial", "timed", lambda *_: None, lambda: False)
        assert launched.outcome == Outcome(None)
        assert [host.facts["pid"] for host in launcher._hosts] == [agents[1].pid, agents[0].pid]
    assert [agent.wait(15) for agent in agents] == [0, 0]


def test_outside_of_a_cluster_the_way_in_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tfscale.suite.launchers.base import HandedOver

    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(LaunchError, match="--render"):
        KubernetesLauncher.hand_over(Cluster(), HandedOver("s", [], None, tmp_path, 1, []))
    with pytest.raises(LaunchError, match="no token of the set's Secret"):
        described = {"hosts": ["a"], "kubernetes": {"image": "a/b:1", "claim": "c"}}
        KubernetesLauncher(Cluster.model_validate(described)).hosts(toy.case())
