"""Real labs: they carry what they should and no more, show nowhere, and leave nothing."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "performance"))
import link
import rooms

from tfscale.suite.monitors.base import Target
from tfscale.suite.monitors.network import Network
from tfscale.suite.netlab import lab as labs
from tfscale.suite.netlab import namespaces
from tfscale.suite.netlab.commands import LabError, run
from tfscale.suite.netlab.lab import Lab
from tfscale.suite.sources.here import here

pytestmark = pytest.mark.system


@pytest.fixture(autouse=True)
def _allowed() -> None:
    rooms.need_labs()


@pytest.fixture
def pair() -> Iterator[Lab]:
    with Lab(rooms.topology(hosts=2, link="50Mbit")) as lab:
        yield lab


def left(lab: Lab) -> list[str]:
    return [name for name in lab.layout.namespaces if (namespaces.RUN / name).exists()]


def own_interfaces() -> list[str]:
    return sorted(os.listdir("/sys/class/net"))  # noqa: PTH208


def test_a_link_carries_its_rate_in_both_directions_and_no_more(pair: Lab) -> None:
    ideal = 1e6 * 8 / 50e6
    seconds = link.socket_seconds(pair, 1)
    # A bucket of some 10 kB is all that may pass beyond the rate; a busy machine may take longer, not shorter.
    assert 0.98 * ideal < seconds < 2 * ideal
    counted = pair.counters()
    for direction in ("rx", "tx"):
        for host in ("h0", "h1"):
            assert 1e6 < counted[f"{host}/{direction}_bytes"] < 1.1e6


def test_the_network_monitor_counts_what_hosts_send(pair: Lab, tmp_path: Path) -> None:
    spaces = {f"host{host.place}": host.namespace for host in pair.hosts}
    monitor = Network(here(), Target(tmp_path, {}, {**spaces, "host2": "tfs-1-1-1-h9"}))
    good = [column for column in monitor.columns() if column.state == "ok"]
    missing = [column for column in monitor.columns() if column.state != "ok"]
    assert {column.device for column in missing} == {"host2", "host2/eth0"}
    assert all("tfs-1-1-1-h9" in (column.reason or "") for column in missing)
    link.socket_seconds(pair, 0.5)
    found = dict(zip((column.key for column in good), monitor.sample(good), strict=True))
    for host in spaces:
        assert 500_000 < (found[f"{host}/eth0/tx_bytes"] or 0) < 550_000
        assert found[f"{host}/lo/tx_bytes"] == 0 and found[f"{host}/tcp_retransmits"] is not None
    assert monitor.facts()["namespaces"]["host0"] == pair.hosts[0].namespace


def test_racks_share_their_uplink() -> None:
    with Lab(rooms.two_racks(link="400Mbit", uplink="50Mbit", hosts="ab")) as lab:
        assert link.socket_seconds(lab, 1) > 0.98 * 1e6 * 8 / 50e6
        counted = lab.counters()
        assert counted["up0/tx_bytes"] == pytest.approx(counted["core1/tx_bytes"], rel=0.01)
        assert counted["up0/tx_bytes"] > 1e6
        # What a connection has under way fits into a port: faster links before a slower one lose nothing.
        shown = run(("tc", "-s", "-n", lab.layout.name.switch, "qdisc", "show", "dev", "up0"))
        assert "dropped 0," in shown and "tbf" in shown
        most = namespaces.inside(lab.hosts[0].namespace, Path("/proc/sys/net/ipv4/tcp_wmem").read_text)
        assert int(most.split()[2]) == lab.layout.window


def test_the_median_lies_between_order_statistics() -> None:
    # Tables of the sign test: 6 values are the fewest (96.9 %); of 9 the 2nd and 8th (96.1 %), of 20 the 6th and 15th.
    assert link.median_interval([3, 1, 2, 5, 4]) is None
    assert link.median_interval([6, 1, 2, 5, 4, 3]) == (1, 6)
    assert link.median_interval(range(1, 10)) == (2, 8)
    assert link.median_interval(range(1, 21)) == (6, 15)


def test_a_cut_host_is_cut_off_until_it_is_mended(pair: Lab) -> None:
    pair.cut(1)
    with pytest.raises(OSError, match=r"timed out|No route|unreachable"):
        _connect(pair, 0.3)
    pair.mend(1)
    _connect(pair, 5.0)


def _connect(lab: Lab, timeout_s: float) -> None:
    """A connection from host 0 to host 1, where a server waits."""
    there = lab.hosts[1]
    with namespaces.inside(there.namespace, lambda: socket.create_server((there.address, 0))) as server:
        address = server.getsockname()
        namespaces.inside(lab.hosts[0].namespace, lambda: socket.create_connection(address, timeout_s)).close()


def test_nothing_shows_outside_and_two_labs_do_not_meet(pair: Lab) -> None:
    before = own_interfaces()
    with Lab(rooms.topology(hosts=2, link="50Mbit")) as other:
        assert other.hosts[0].address == pair.hosts[0].address
        assert not {host.namespace for host in other.hosts} & {host.namespace for host in pair.hosts}
        _connect(other, 5.0)
        assert own_interfaces() == before
        assert set(pair.counters().values()) == {0}
    assert not left(other) and len(left(pair)) == 3
    assert own_interfaces() == before


def test_a_lab_is_removed_on_an_exception_and_removing_again_is_nothing() -> None:
    lab = Lab(rooms.topology(hosts=2))
    with pytest.raises(KeyError), lab:
        assert len(left(lab)) == 3 and lab.whole
        raise KeyError("anything")
    assert not left(lab) and not lab.whole
    lab.remove()


def test_a_lab_that_fails_halfway_leaves_nothing_and_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(command: tuple[str, ...]) -> str:
        return run(("ip", "link", "set", "dev", "no-such-link", "up") if "master" in command else command)

    monkeypatch.setattr(labs, "run", failing)
    lab = Lab(rooms.topology(hosts=2))
    with pytest.raises(LabError, match=r"`ip link set dev no-such-link up` failed with code 1: .*no-such-link"):
        lab.build()
    assert not left(lab)


def test_a_delay_is_kept_or_refused_with_what_to_do() -> None:
    lab = Lab(rooms.topology(hosts=2, link="100Mbit", delay_ms=20))
    if not rooms.has_netem():
        with pytest.raises(LabError, match=r"no netem .*set delay_ms: 0, or use a kernel"):
            lab.build()
        assert not left(lab)
        return
    with lab:
        began = time.perf_counter()
        _connect(lab, 5.0)
        assert time.perf_counter() - began > 0.04


def test_without_the_capability_the_message_says_what_to_do(root: Path) -> None:
    script = (
        "from tfscale.suite.netlab.lab import Lab\n"
        "from tfscale.suite.topology import Topology\n"
        "Lab(Topology.model_validate({'hosts': 2})).build()\n"
    )
    done = subprocess.run(
        ["setpriv", "--bounding-set", "-net_admin,-sys_admin", sys.executable, "-c", script],
        check=False,
        capture_output=True,
        text=True,
        cwd=root,
        timeout=60,
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "this process lacks CAP_NET_ADMIN and CAP_SYS_ADMIN: run it as root (sudo)" in last


def test_capabilities_are_read_from_the_effective_set() -> None:
    everything = "CapInh:\t0000000000000000\nCapPrm:\t000001ffffffffff\nCapEff:\t000001ffffffffff\n"
    assert namespaces.missing_capabilities(everything) == []
    assert namespaces.refusal(everything) is None
    # Bit 12 without bit 21: what a container with --cap-add NET_ADMIN has.
    assert namespaces.missing_capabilities("CapPrm:\t000001ffffffffff\nCapEff:\t00000000a80435fb") == ["CAP_SYS_ADMIN"]
    assert namespaces.missing_capabilities("CapEff:\t0000000000000000") == ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"]
    assert "lacks CAP_SYS_ADMIN: run it as root" in (namespaces.refusal("CapEff:\t0000000000001000") or "")
