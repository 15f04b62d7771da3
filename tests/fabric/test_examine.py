"""A host's ports: from recorded trees and outputs, and on Debian's simulated fabric."""

from pathlib import Path
from typing import Any, ClassVar

import ibsim
import pytest

from tfscale.suite.doctor.fabric import fabric
from tfscale.suite.fabric.examine import Examined, examine
from tfscale.suite.sources import bundle
from tfscale.suite.sources.base import Answer, Source, Sources
from tfscale.suite.sources.redact import Redactor


class Fixed(Source):
    name: ClassVar[str] = "fixed"

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self._answers = answers or {}

    def ask(self, key: str) -> Answer:
        if key in self._answers:
            return Answer(self._answers[key])
        return Answer(state="absent", reason=f"{key.split()[0]} is not there")

    def under(self, key: str) -> list[str]:
        prefix = f"{key}/" if key else ""
        return sorted({name[len(prefix) :].partition("/")[0] for name in self._answers if name.startswith(prefix)})


def statuses(found: Examined) -> dict[str, str]:
    return {check.name: check.status for check in found.checks}


def test_a_host_without_rdma_has_nothing_to_say() -> None:
    assert examine(Sources(Fixed(), Fixed(), Fixed())) == Examined()


_PORT = "sys/class/infiniband/mlx5_0/ports/1"
_ROCE = {
    f"{_PORT}/link_layer": "Ethernet",
    f"{_PORT}/rate": "100 Gb/sec (4X EDR)",
    f"{_PORT}/state": "4: ACTIVE",
    f"{_PORT}/counters/symbol_error": "0",
    f"{_PORT}/counters/link_downed": "N/A (no PMA)",
    f"{_PORT}/gids/0": "fe80:0000:0000:0000:526b:4bff:fec2:c0a0",
    f"{_PORT}/gids/1": "0000:0000:0000:0000:0000:ffff:0a00:0001",
    f"{_PORT}/gids/2": "0000:0000:0000:0000:0000:0000:0000:0000",
    f"{_PORT}/gid_attrs/types/0": "IB/RoCE v1",
    f"{_PORT}/gid_attrs/types/1": "RoCE v2",
    f"{_PORT}/gid_attrs/ndevs/0": "eth2",
    f"{_PORT}/gid_attrs/ndevs/1": "eth2",
    "sys/class/net/eth2/mtu": "9000",
    "proc/self/limits": "Max locked memory         65536                65536                bytes     ",
    "sys/module/nvidia_peermem": "sys/module/nvidia_peermem",
}


def test_roce_is_judged_by_sysfs_alone_and_its_gids_are_shown() -> None:
    found = examine(Sources(Fixed(_ROCE), Fixed(), Fixed()))
    assert statuses(found) == {"fabric_errors": "VALID", "fabric_mtu": "VALID", "memlock": "SUSPECT"}
    port = found.shown["ports"]["mlx5_0/1"]
    assert [gid["type"] for gid in port["gids"]] == ["IB/RoCE v1", "RoCE v2"]
    assert found.shown["peer_memory"]["module"] == "nvidia_peermem"
    assert found.shown["distance"] is None
    assert found.shown["unread"] == {}


def test_the_distance_of_gpus_to_adapters_is_shown() -> None:
    rows = "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV4\tPIX\nGPU1\tNV4\t X \tSYS\nNIC0\tPIX\tSYS\t X \n"
    topology = f"{rows}\nNIC Legend:\n  NIC0: mlx5_0\n"
    commands = Fixed({"nvidia-smi topo -m": {"rc": 0, "stdout": topology, "stderr": ""}})
    found = examine(Sources(Fixed(_ROCE), commands, Fixed({"count": 2})))
    assert found.shown["distance"]["links"] == {"GPU0": {"mlx5_0": "PIX"}, "GPU1": {"mlx5_0": "SYS"}}


def test_doctor_tells_what_is_judged_and_shows_the_rest() -> None:
    found = {finding.name: finding for finding in fabric(Sources(Fixed(_ROCE), Fixed(), Fixed()))}
    assert {name: (finding.topic, finding.answer) for name, finding in found.items()} == {
        "errors": ("fabric", "works"),
        "mtu": ("fabric", "works"),
        "memlock": ("limits", "fails"),
        "port mlx5_0/1": ("fabric", "shown"),
        "GPUDirect module": ("fabric", "shown"),
    }
    assert found["port mlx5_0/1"].detail == "Ethernet, 100 Gb/sec (4X EDR), ACTIVE, GIDs IB/RoCE v1, RoCE v2"
    assert [finding.name for finding in fabric(Sources(Fixed(), Fixed(), Fixed()))] == ["rdma"]


def test_tools_that_cannot_be_run_leave_unknown_with_the_reason() -> None:
    files = Fixed({f"{_PORT}/link_layer": "InfiniBand"})
    refused = {"rc": 255, "stdout": "", "stderr": "ibwarn: x\nfailed: Failed to open port; mlx5_0:1\n"}
    commands = Fixed({"iblinkinfo -l -C mlx5_0 -P 1 -D 0 -n 1": refused})
    found = examine(Sources(files, commands, Fixed()))
    assert statuses(found) == {"fabric_link": "UNKNOWN", "fabric_errors": "UNKNOWN", "memlock": "UNKNOWN"}
    unread = found.shown["unread"]
    assert unread["iblinkinfo -l -C mlx5_0 -P 1 -D 0 -n 1"] == "code 255: failed: Failed to open port; mlx5_0:1"
    assert unread["perfquery -C mlx5_0 -P 1"] == "perfquery is not there"


_NET = """\
Switch\t8 "rackswitch"
[1]\t"nodeone"[1]
[4]\t"nodetwo"[1]\tw=1

Hca\t2 "nodeone"
[1]\t"rackswitch"[1]

Hca\t2 "nodetwo"
[1]\t"rackswitch"[4]\tw=1
"""
_COUNTERS = """\
PerformanceSet "nodetwo"[1] PortCounters.SymbolErrorCounter=5
PerformanceSet "nodetwo"[1] PortCounters.LinkDownedCounter=2
PerformanceSet "rackswitch"[4] PortCounters.PortRcvErrors=12
PerformanceSet "rackswitch"[1] PortCounters.PortRcvErrors=99
"""
simulated = pytest.mark.skipif(bool(ibsim.missing()), reason=f"not installed: {', '.join(ibsim.missing())}")


@simulated
@pytest.mark.system
def test_a_degraded_link_and_its_errors_on_a_simulated_fabric(tmp_path: Path) -> None:
    with ibsim.fabric(tmp_path, _NET, "nodetwo", _COUNTERS) as commands:
        sources = bundle.recording(Sources(Fixed(), commands, Fixed()))
        found = examine(sources)
    assert statuses(found) == {
        "fabric_link": "SUSPECT",
        "fabric_errors": "SUSPECT",
        "fabric_mtu": "VALID",
        "memlock": "UNKNOWN",
    }, found
    link, errors, mtu, _ = found.checks
    # ibsim's links are 4X of 2.5 Gbps and could be more; this one was made 1X.
    assert "nodetwo port 1 to rackswitch runs 1X at 2.5 Gbps, could 12X and 10.0 Gbps" in link.detail
    assert link.evidence["links"][0]["peer_port"] == 4
    ports = errors.evidence["ports"]
    assert (ports["ibsim0/1"]["SymbolErrorCounter"], ports["ibsim0/1"]["LinkDownedCounter"]) == (5, 2)
    assert ports["rackswitch port 4"] == {"PortRcvErrors": 12}
    assert "99" not in errors.detail
    assert mtu.evidence["infiniband"] == {"ibsim0/1": [2048, 2048]}
    assert found.shown["unread"] == {}
    bundle.write(tmp_path / "bundle", sources, {}, Redactor())
    text = "".join(path.read_text() for path in (tmp_path / "bundle").iterdir())
    assert not [name for name in ("nodeone", "nodetwo", "rackswitch", "0x00000000001") if name in text]
    again = examine(bundle.read(tmp_path / "bundle").sources)
    assert statuses(again) == statuses(found)
    replayed = again.checks[1].evidence["ports"]
    assert sorted(map(str, replayed.values())) == sorted(map(str, ports.values()))


@simulated
@pytest.mark.system
def test_a_port_without_errors_on_a_simulated_fabric(tmp_path: Path) -> None:
    with ibsim.fabric(tmp_path, _NET, "nodeone") as commands:
        found = examine(Sources(Fixed(), commands, Fixed()))
    assert statuses(found)["fabric_errors"] == "VALID"
    assert found.checks[0].evidence["links"][0]["width"] == "4X"
