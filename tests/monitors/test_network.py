"""Interfaces: a tree of one that is bonded, down, virtual; and a transfer of known size between two namespaces."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import tree

from tfscale.suite.monitors.network import Network
from tfscale.suite.sources.base import Sources
from tfscale.suite.sources.here import here

HOST = """
proc/net/dev = a\\nb\\n lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\\n eth0: 10 2 3 4 0 0 0 0 20 5 6 7 0 0 0 0\\n bond0: 10 2 0 0 0 0 0 0 20 5 0 0 0 0 0 0
proc/net/snmp = Tcp: OutSegs RetransSegs\\nTcp: 9 8
[sys/class/net]
bonding_masters = bond0
lo/flags = 0x9
lo/type = 772
lo/mtu = 65536
lo/operstate = unknown
eth0/flags = 0x1003
eth0/type = 1
eth0/mtu = 9000
eth0/operstate = up
eth0/speed = 25000
eth0/device -> ../../../devices/card
eth0/master -> ../bond0
bond0/flags = 0x1103
bond0/type = 1
bond0/speed = -1
bond0/operstate = up
ib0/flags = 0x1002
ib0/type = 32
ib0/operstate = down
[sys/devices]
card
"""  # noqa: E501


def values(sources: Sources, folder: Path) -> dict[str, float | None]:
    monitor = Network(sources, tree.target(folder))
    good = [column for column in monitor.columns() if column.state == "ok"]
    return dict(zip((column.key for column in good), monitor.sample(good), strict=True))


def test_interfaces_that_are_up_and_tcp(tmp_path: Path) -> None:
    found = values(tree.lay(HOST, tmp_path), tmp_path)
    assert {key.partition("/")[0] for key in found} == {"lo", "eth0", "bond0", "tcp_retransmits"}
    assert found["tcp_retransmits"] == 8
    assert [found[f"eth0/rx_{what}"] for what in ("bytes", "packets", "errors", "drops")] == [10, 2, 3, 4]
    assert [found[f"eth0/tx_{what}"] for what in ("bytes", "packets", "errors", "drops")] == [20, 5, 6, 7]


def test_facts_of_interfaces(tmp_path: Path) -> None:
    facts = Network(tree.lay(HOST, tmp_path), tree.target(tmp_path)).facts()["interfaces"]
    assert list(facts) == ["bond0", "eth0", "ib0", "lo"]
    assert facts["eth0"] == {
        "speed_mbit": 25000, "mtu": 9000, "state": "up", "loopback": False, "physical": True, "master": "bond0",
    }  # fmt: skip
    assert facts["bond0"]["speed_mbit"] is None and facts["bond0"]["mtu"] is None
    assert (facts["lo"]["loopback"], facts["lo"]["physical"], facts["ib0"]["state"]) == (True, False, "down")


def test_an_interface_that_goes_away_is_none(tmp_path: Path) -> None:
    sources = tree.lay(HOST, tmp_path)
    monitor = Network(sources, tree.target(tmp_path))
    columns = [column for column in monitor.columns() if column.key in ("lo/rx_bytes", "eth0/rx_bytes")]
    tree.lay("proc/net/dev = a\\nb\\n lo: 6 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0", tmp_path)
    assert dict(zip((c.key for c in columns), monitor.sample(columns), strict=True)) == {
        "lo/rx_bytes": 6,
        "eth0/rx_bytes": None,
    }


BYTES = 50_000_000
HEADERS = 66
"""Ethernet 14, IPv4 20, TCP with time stamps 32."""
SERVER = """
import socket
with socket.create_server(("0.0.0.0", 5201)) as server:
    print("ready", flush=True)
    peer, _ = server.accept()
    total = 0
    while data := peer.recv(1 << 20):
        total += len(data)
    print(total, flush=True)
"""


@dataclass
class Link:
    interface: str
    namespace: str
    address: str


@pytest.fixture
def link() -> Iterator[Link]:
    """A pair of virtual interfaces, one here, its peer in a namespace of its own."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("network namespaces need root and iproute2")
    number = os.getpid() % 10000
    near, far, space = f"tfa{number}", f"tfb{number}", f"tfscale-{number}"
    third = 1 + number % 250

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    try:
        ip("netns", "add", space)
        ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", space)
    except subprocess.CalledProcessError as error:
        subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)
        pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
    try:
        ip("addr", "add", f"10.213.{third}.1/24", "dev", near)
        ip("link", "set", near, "up")
        ip("-n", space, "addr", "add", f"10.213.{third}.2/24", "dev", far)
        ip("-n", space, "link", "set", far, "up")
        yield Link(near, space, f"10.213.{third}.2")
    finally:
        ip("netns", "del", space)


@pytest.mark.system
def test_a_known_transfer_is_counted_within_two_percent(link: Link, tmp_path: Path) -> None:
    monitor = Network(here(), tree.target(tmp_path))
    columns = [column for column in monitor.columns() if column.device == link.interface]
    assert len(columns) == 8 and all(column.state == "ok" for column in columns)

    def look() -> dict[str, float]:
        return {c.name: float(v or 0) for c, v in zip(columns, monitor.sample(columns), strict=True)}

    server = subprocess.Popen(
        ["ip", "netns", "exec", link.namespace, sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None and server.stdout.readline() == "ready\n"
        before = look()
        with socket.create_connection((link.address, 5201), timeout=10) as sender:
            sender.sendall(bytes(BYTES))
        assert int(server.stdout.readline()) == BYTES
        time.sleep(0.05)
        after = look()
    finally:
        server.kill()
        server.communicate()
    grown = {name: after[name] - before[name] for name in before}
    assert grown["tx_bytes"] - HEADERS * grown["tx_packets"] == pytest.approx(BYTES, rel=0.02)
    # What comes back is acknowledgements: headers and nothing else.
    assert grown["rx_packets"] > 0 and grown["rx_bytes"] == pytest.approx(HEADERS * grown["rx_packets"], rel=0.1)
    assert grown["tx_errors"] == grown["rx_errors"] == 0
