"""RDMA counters of adapters that we do not have, from trees in the shapes that the kernel documents."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import tree

from tfscale.suite.monitors.base import Column
from tfscale.suite.monitors.rdma import Rdma
from tfscale.suite.sources.base import Sources


def values(sources: Sources, folder: Path) -> dict[str, float | None]:
    monitor = Rdma(sources, tree.target(folder))
    good = [column for column in monitor.columns() if column.state == "ok"]
    return dict(zip((column.key for column in good), monitor.sample(good), strict=True))


def columns(sources: Sources, folder: Path) -> dict[str, Column]:
    return {column.key: column for column in Rdma(sources, tree.target(folder)).columns()}


def test_data_counts_octets_by_four_and_everything_else_as_it_is(tmp_path: Path) -> None:
    found = values(tree.machine("mlx5_roce", tmp_path), tmp_path)
    assert found["mlx5_0/1/tx_bytes"] == 1000  # 250 x 4
    assert found["mlx5_0/1/rx_bytes"] == 4294967296000 * 4
    assert found["mlx5_0/1/port_xmit_packets"] == 7
    assert found["mlx5_0/1/port_rcv_errors"] == 2
    assert [found[f"mlx5_0/1/{name}"] for name in ("np_cnp_sent", "np_ecn_marked_roce_packets", "rp_cnp_handled")] == [
        11,
        12,
        13,
    ]
    assert found["mlx5_0/1/out_of_sequence"] == 14
    assert not any("lifespan" in key for key in found)


def test_a_32_bit_data_counter_wraps_at_four_times_2_to_the_32(tmp_path: Path) -> None:
    found = columns(tree.machine("mlx5_roce", tmp_path), tmp_path)
    assert found["mlx5_0/1/tx_bytes"].wraps_at == 2**34
    assert found["mlx5_0/1/symbol_error"].wraps_at == 2**32


def test_what_a_tick_reads_is_the_bytes_alone(tmp_path: Path) -> None:
    found = columns(tree.machine("mlx5_roce", tmp_path), tmp_path)
    assert {c.name for c in found.values() if not c.slow} == {"tx_bytes", "rx_bytes"}


def test_infiniband_has_no_roce_counters_and_each_port_is_its_own(tmp_path: Path) -> None:
    sources = tree.machine("mlx5_ib", tmp_path)
    found = values(sources, tmp_path)
    assert (found["mlx5_2/1/tx_bytes"], found["mlx5_2/1/rx_bytes"], found["mlx5_2/2/tx_bytes"]) == (4000, 8000, 0)
    assert (found["mlx5_2/1/port_xmit_wait"], found["mlx5_2/1/symbol_error"]) == (55, 3)
    assert found["mlx5_2/1/out_of_buffer"] == 6
    assert "mlx5_2/1/np_cnp_sent" not in columns(sources, tmp_path)


def test_a_counter_without_a_number_is_unsupported_and_shown(tmp_path: Path) -> None:
    found = columns(tree.machine("i40iw", tmp_path), tmp_path)
    for key in ("i40iw0/1/tx_bytes", "i40iw0/1/rx_bytes", "i40iw0/1/symbol_error"):
        assert found[key].state == "unsupported"
        assert "'N/A (no PMA)'" in str(found[key].reason)
    assert found["i40iw0/1/link_downed"].state == "absent"
    assert all(column.state != "ok" for column in found.values())


def test_omnipath_is_read_past_its_odd_names(tmp_path: Path) -> None:
    sources = tree.machine("hfi1", tmp_path)
    assert values(sources, tmp_path) == {"hfi1_0/1/tx_bytes": 1200, "hfi1_0/1/rx_bytes": 1600}
    assert columns(sources, tmp_path)["hfi1_0/1/link_downed"].state == "unsupported"


def test_a_file_that_turns_bad_costs_only_its_own_value(tmp_path: Path) -> None:
    sources = tree.machine("mlx5_ib", tmp_path)
    monitor = Rdma(sources, tree.target(tmp_path))
    good = [column for column in monitor.columns() if column.device == "mlx5_2/1" and not column.slow]
    (tmp_path / "sys/class/infiniband/mlx5_2/ports/1/counters/port_xmit_data").unlink()
    assert monitor.sample(good) == [None, 8000]


@pytest.mark.parametrize(
    ("name", "port", "facts"),
    [
        ("mlx5_roce", "mlx5_0/1", {"link_layer": "Ethernet", "roce": True, "rate_gbit": 100, "state": "ACTIVE",
                                   "physical_state": "LinkUp", "interface": "ens1f0", "mtu": 4200}),
        ("mlx5_ib", "mlx5_2/1", {"link_layer": "InfiniBand", "roce": False, "rate_gbit": 200, "state": "ACTIVE",
                                 "interface": None, "mtu": None}),
        ("mlx5_ib", "mlx5_2/2", {"state": "DOWN", "physical_state": "Disabled", "rate": "10 Gb/sec (4X SDR)"}),
        ("hfi1", "hfi1_0/1", {"link_layer": "InfiniBand", "rate_gbit": 100, "state": "ACTIVE"}),
    ],
)  # fmt: skip
def test_facts_of_a_port(name: str, port: str, facts: dict[str, object], tmp_path: Path) -> None:
    found = Rdma(tree.machine(name, tmp_path), tree.target(tmp_path)).facts()["ports"][port]
    assert {key: found[key] for key in facts} == facts


def test_gids_tell_the_roce_version_and_no_address(tmp_path: Path) -> None:
    found = Rdma(tree.machine("mlx5_roce", tmp_path), tree.target(tmp_path)).facts()["ports"]["mlx5_0/1"]["gids"]
    assert found == [
        {"index": "0", "type": "IB/RoCE v1", "interface": "ens1f0"},
        {"index": "1", "type": "RoCE v2", "interface": "ens1f0"},
        {"index": "3", "type": "RoCE v2", "interface": "ens1f0"},
    ]


def test_a_machine_without_adapters_says_so(tmp_path: Path) -> None:
    found = columns(tree.lay("", tmp_path), tmp_path)
    assert {key: column.state for key, column in found.items()} == {"tx_bytes": "absent", "rx_bytes": "absent"}
    assert "has no adapter" in str(found["tx_bytes"].reason)
