"""What makes a machine, and what does not."""

from typing import Any

import pytest

from tfscale.suite.nightly.fingerprint import GIB, machine, merged

ENVIRONMENT: dict[str, Any] = {
    "host": "node-17",
    "cpu": {"model": "Intel(R) Xeon(R) CPU @ 2.20GHz", "sockets": 2, "cores": 64, "threads": 128, "microcode": "0x1"},
    "memory_bytes": 503.2 * GIB,
    "gpus": [
        {"index": i, "name": "NVIDIA H100 80GB HBM3", "memory_bytes": 80 * GIB, "pci": f"0000:{i}"} for i in range(8)
    ],
    "nics": [{"name": "eth0", "speed_mbit": 25000}],
    "rdma": [{"name": "mlx5_0", "ports": [{"port": "1", "link_layer": "InfiniBand", "rate": "400 Gb/sec (4X NDR)"}]}],
    "topology": {"links": {"GPU0": {"GPU1": "NV18", "mlx5_0": "PIX"}}},
    "driver": {"version": "550.54"},
    "kernel": "6.8.0",
    "load_average": [0.1, 0.2, 0.3],
    "packages": {"tensorflow": "2.19.0"},
}
GPU = ENVIRONMENT["gpus"][0]


def test_it_names_models_counts_memory_and_links() -> None:
    assert str(machine(ENVIRONMENT)) == (
        "Intel(R) Xeon(R) CPU (2 sockets, 64 cores, 128 threads), 8 x NVIDIA H100 80GB HBM3 80 GiB, 503 GiB, "
        "NVLink, RDMA over InfiniBand"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"host": "node-18"},
        {"cpu": ENVIRONMENT["cpu"] | {"model": "Intel(R) Xeon(R) CPU @ 2.25GHz"}},
        {"cpu": ENVIRONMENT["cpu"] | {"microcode": "0x2", "governor": "powersave"}},
        {"memory_bytes": 503.4 * GIB},
        {"gpus": [{**card, "pci": "0001:00"} for card in reversed(ENVIRONMENT["gpus"])]},
        {"nics": [{"name": "ens3", "speed_mbit": 10000}]},
        {"rdma": [{"name": "x", "ports": [{"link_layer": "InfiniBand", "rate": "200 Gb/sec"}]}]},
        {"driver": {"version": "560.1"}, "kernel": "6.9", "packages": {"tensorflow": "2.20.0"}, "load_average": [9]},
    ],
    ids=lambda change: ",".join(change),
)
def test_clocks_names_addresses_rates_and_versions_do_not_count(change: dict[str, Any]) -> None:
    assert machine(ENVIRONMENT | change) == machine(ENVIRONMENT)


@pytest.mark.parametrize(
    "change",
    [
        {"cpu": ENVIRONMENT["cpu"] | {"model": "AMD EPYC 9654 96-Core Processor"}},
        {"cpu": ENVIRONMENT["cpu"] | {"cores": 32}},
        {"memory_bytes": 252 * GIB},
        {"gpus": ENVIRONMENT["gpus"][:4]},
        {"gpus": [{**card, "name": "NVIDIA H200"} for card in ENVIRONMENT["gpus"]]},
        {"gpus": [{**card, "memory_bytes": 94 * GIB} for card in ENVIRONMENT["gpus"]]},
        {"rdma": []},
        {"topology": {"links": {"GPU0": {"GPU1": "PIX"}}}},
    ],
    ids=lambda change: ",".join(change),
)
def test_other_hardware_is_another_machine(change: dict[str, Any]) -> None:
    assert machine(ENVIRONMENT | change) != machine(ENVIRONMENT)


def test_memory_astride_a_whole_gib_is_one_machine() -> None:
    low, high = (machine(ENVIRONMENT | {"memory_bytes": m * GIB}) for m in (503.49, 503.51))
    far = machine(ENVIRONMENT | {"memory_bytes": 600 * GIB})
    assert low != high
    stands = merged([high, far, low, high])
    assert stands[low] == stands[high] != stands[far]


@pytest.mark.parametrize(
    "odd", [{}, {"cpu": None, "gpus": None}, {"cpu": [1], "gpus": [3], "nics": "x", "memory_bytes": "y"}]
)
def test_an_environment_that_tells_nothing_is_a_machine_too(odd: dict[str, Any]) -> None:
    assert str(machine(odd)) == "unknown processor, memory unknown"
