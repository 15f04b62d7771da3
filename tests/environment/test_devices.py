"""GPUs, their neighbours on the buses, and network interfaces."""

from pathlib import Path

import machines
import pytest

from tfscale.suite.environment import cards, interfaces, pci
from tfscale.suite.sources.base import Answer

_TOPO = """\
\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPXB\tSYS\t0-55,112-167\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tPXB\t56-111,168-223\t1\t\tN/A
NIC0\tPXB\tSYS\t X \tSYS\t\t\t\t
NIC1\tSYS\tPXB\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_3
"""


def test_the_vendors_matrix_with_escapes_legend_and_affinity_columns() -> None:
    links = cards.matrix(_TOPO)
    assert list(links) == ["GPU0", "GPU1", "mlx5_0", "mlx5_3"]
    assert links["GPU0"] == {"GPU1": "NV18", "mlx5_0": "PXB", "mlx5_3": "SYS"}
    assert links["mlx5_3"] == {"GPU0": "SYS", "GPU1": "PXB", "mlx5_0": "SYS"}


def test_the_older_matrix_names_the_devices_themselves() -> None:
    old = "\tGPU0\tmlx5_0\tCPU Affinity\nGPU0\t X \tPIX\t0-19\nmlx5_0\tPIX\t X \t\n"
    assert cards.matrix(old) == {"GPU0": {"mlx5_0": "PIX"}, "mlx5_0": {"GPU0": "PIX"}}
    assert cards.matrix("No devices were found\n") == {}


@pytest.mark.parametrize(
    ("one", "other", "numa", "word"),
    [
        (["pci0", "0:1.0", "1:0.0", "2:0.0", "3:0.0"], ["pci0", "0:1.0", "1:0.0", "2:1.0", "4:0.0"], (0, 0), "PIX"),
        (
            ["pci0", "0:1.0", "1:0.0", "2:0.0", "3:0.0", "4:0.0", "5:0.0"],
            ["pci0", "0:1.0", "1:0.0", "2:1.0", "6:0.0"],
            (0, 0),
            "PXB",
        ),
        (["pci0", "0:1.0", "1:0.0"], ["pci0", "0:2.0", "2:0.0"], (0, 0), "PHB"),
        (["pci0", "0:1.0"], ["pci8", "8:1.0"], (0, 0), "NODE"),
        (["pci0", "0:1.0"], ["pci8", "8:1.0"], (0, 1), "SYS"),
        (["pci0", "0:1.0"], ["pci8", "8:1.0"], (0, None), None),
        (None, ["pci8", "8:1.0"], (0, 0), None),
    ],
)
def test_distances_by_bus_path(
    one: list[str] | None, other: list[str], numa: tuple[int, int | None], word: str | None
) -> None:
    first, second = {"pci_path": one, "numa_node": numa[0]}, {"pci_path": other, "numa_node": numa[1]}
    assert pci.distance(first, second) == pci.distance(second, first) == word


_GPU = "sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0"
_NIC = "sys/devices/pci0000:80/0000:80:01.0/0000:82:00.0"
_NODE = {
    "sys/bus/pci/devices/0000:81:00.0": f"->{_GPU}",
    "sys/bus/pci/devices/0000:82:00.0": f"->{_NIC}",
    f"{_GPU}/numa_node": "1\n",
    f"{_GPU}/current_link_speed": "16.0 GT/s PCIe\n",
    f"{_GPU}/current_link_width": "8\n",
    f"{_GPU}/max_link_width": "16\n",
    f"{_NIC}/numa_node": "-1\n",
    f"{_NIC}/infiniband/mlx5_0/fw_ver": "28.40.1000\n",
    "sys/class/net/ib0/device": f"->{_NIC}",
    "sys/class/net/ib0/speed": "-1\n",
    "sys/class/net/ib0/mtu": "4092\n",
    "sys/class/net/ib0/operstate": "up\n",
    "sys/class/net/veth1/mtu": "1500\n",
    "sys/class/net/lo/mtu": "65536\n",
    f"{_NIC}/driver": "->sys/bus/pci/drivers/mlx5_core",
    "sys/class/infiniband/mlx5_0/device": f"->{_NIC}",
    "sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)\n",
    "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
    "sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand\n",
}
_NVML = {"count": 1, "0/name": "Example H", "0/memory_total": 80 << 30, "0/pci": "00000000:81:00.0"}


def test_a_card_beside_its_nic(tmp_path: Path) -> None:
    sources = machines.sources(machines.tree(tmp_path, _NODE), nvml=_NVML)
    (gpu,) = cards.gpus(sources) or []
    assert (gpu["name"], gpu["memory_bytes"], gpu["pci"], gpu["numa_node"]) == (
        "Example H",
        80 << 30,
        "0000:81:00.0",
        1,
    )
    assert gpu["link"] == {"speed": "16.0 GT/s PCIe", "width": "8", "max_speed": None, "max_width": "16"}
    (rdma,) = interfaces.rdma_devices(sources.files)
    assert rdma["driver"] == "mlx5_core"
    assert rdma["numa_node"] is None
    assert rdma["ports"] == [
        {"port": "1", "state": "4: ACTIVE", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}
    ]
    found = cards.topology(sources, [gpu], [rdma])
    assert found is not None
    assert found["links"] == {"GPU0": {"mlx5_0": "PIX"}, "mlx5_0": {"GPU0": "PIX"}}
    assert found["reason"]


def test_interfaces_that_lead_out_of_the_host(tmp_path: Path) -> None:
    (found,) = interfaces.interfaces(machines.tree(tmp_path, _NODE))
    assert (found["name"], found["mtu"], found["driver"], found["rdma"]) == ("ib0", 4092, "mlx5_core", ["mlx5_0"])
    assert found["speed_mbit"] is None
    assert "-1" in found["speed_mbit_reason"]


def test_the_vendors_matrix_is_preferred(tmp_path: Path) -> None:
    answers = {"nvidia-smi topo -m": {"rc": 0, "stdout": _TOPO, "stderr": ""}}
    sources = machines.sources(machines.tree(tmp_path, _NODE), answers, _NVML)
    found = cards.topology(sources, cards.gpus(sources), [])
    assert found is not None
    assert found["links"]["GPU0"]["GPU1"] == "NV18"


def test_no_driver_is_no_gpu_and_a_silent_driver_is_unknown() -> None:
    assert cards.named(machines.Fixed()) == []
    broken = machines.Fixed({"count": Answer(state="error", reason="Driver/library version mismatch")})
    assert cards.named(broken) is None


def test_a_card_that_tells_only_its_name() -> None:
    (card,) = cards.named(machines.Fixed({"count": 1, "0/name": "Example"})) or []
    assert card["memory_bytes"] is None
    assert card["memory_bytes_reason"] == "0/memory_total is not there"
    assert card["pci"] is None


@pytest.mark.parametrize(
    ("given", "address"), [("00000000:81:00.0", "0000:81:00.0"), ("0001:0A:1F.7", "0001:0a:1f.7"), ("81:00", None)]
)
def test_addresses(given: str, address: str | None) -> None:
    assert pci.sysfs_address(given) == address
