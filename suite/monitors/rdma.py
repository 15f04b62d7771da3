"""RDMA adapters: bytes that they moved, and what went wrong, from /sys/class/infiniband.

Layout: the kernel's Documentation/ABI/stable/sysfs-class-infiniband. `port_xmit_data` and `port_rcv_data` count octets
divided by 4, on every link layer. Counters are of the whole port: another job's traffic is in them. None of this was
ever read from an adapter here; trees in the documented shapes stand in for mlx5 (InfiniBand, RoCE), i40iw and hfi1.

A counter of the table that a port does not have is a column that is absent; numbers that the table does not know
(OmniPath has some, of odd names) are left alone. Some adapters ask their firmware for each counter, so only the bytes
are read at every tick.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from tfscale.suite.monitors.base import Column
from tfscale.suite.monitors.grouped import Group, Grouped, each_file_group, number
from tfscale.suite.sources.base import Source

INFINIBAND = "sys/class/infiniband"
LANES = 4
"""Octets in one unit of the data counters."""
DATA = {"tx_bytes": "port_xmit_data", "rx_bytes": "port_rcv_data"}
COUNTERS = {
    "port_xmit_packets": "packets",
    "port_rcv_packets": "packets",
    "port_xmit_wait": "ticks",
    "port_xmit_discards": "packets",
    "port_rcv_errors": "packets",
    "port_rcv_remote_physical_errors": "packets",
    "symbol_error": "1",
    "link_downed": "1",
    "link_error_recovery": "1",
    "local_link_integrity_errors": "1",
    "excessive_buffer_overrun_errors": "1",
    "VL15_dropped": "packets",
}
"""File in `counters` -> unit. port_xmit_wait: ticks in which data waited for credits or for its turn, congestion."""
HW_COUNTERS = {
    "np_cnp_sent": "packets",
    "np_ecn_marked_roce_packets": "packets",
    "rp_cnp_handled": "packets",
    "rp_cnp_ignored": "packets",
    "out_of_sequence": "packets",
    "packet_seq_err": "1",
    "local_ack_timeout_err": "1",
    "rnr_nak_retry_err": "1",
    "implied_nak_seq_err": "1",
    "duplicate_request": "packets",
    "out_of_buffer": "packets",
    "roce_adp_retrans": "packets",
    "roce_adp_retrans_to": "1",
    "rx_icrc_encapsulated": "packets",
    "rx_read_requests": "packets",
    "rx_write_requests": "packets",
}
"""File in `hw_counters` -> unit, as mlx5 names them; congestion on RoCE first. Other drivers have others, or none."""
_ROCE_ONLY = ("np_", "rp_", "roce_", "rx_icrc")


class Rdma(Grouped):
    """Counters of every port of every RDMA adapter."""

    name: ClassVar[str] = "rdma"

    def groups(self) -> Sequence[Group]:
        files = self.sources.files
        found = ports(files)
        if not found:
            reason = f"/{INFINIBAND} has no adapter: none is fitted, its driver is not loaded, or a container hides it"
            return [Group([replace(c, state="absent", reason=reason) for c in _data_columns(None)], dict)]
        return [group for device, port in found for group in port_groups(files, device, port)]

    def facts(self) -> dict[str, Any]:
        """`ports`: device/port -> link layer, rate, state, MTU, GIDs in use, as they were when sampling began."""
        return self._facts

    @cached_property
    def _facts(self) -> dict[str, Any]:
        files = self.sources.files
        return {"ports": {f"{device}/{port}": port_facts(files, device, port) for device, port in ports(files)}}


def ports(files: Source) -> list[tuple[str, str]]:
    """(adapter, port number) of every port."""
    return [(d, port) for d in files.under(INFINIBAND) for port in files.under(f"{INFINIBAND}/{d}/ports")]


def port_groups(files: Source, device: str, port: str) -> list[Group]:
    """The columns of one port: its bytes at every tick, everything else once a second."""
    folder = f"{INFINIBAND}/{device}/ports/{port}"
    name = f"{device}/{port}"
    data = [(c, DATA[c.name], float(LANES)) for c in _data_columns(name)]
    counters = [(Column(n, unit, "counter", name, slow=True), n, 1.0) for n, unit in COUNTERS.items()]
    hardware = [
        (Column(n, unit, "counter", name, slow=True), n, 1.0)
        for n, unit in HW_COUNTERS.items()
        if is_roce(files, folder) or not n.startswith(_ROCE_ONLY)
    ]
    return [
        each_file_group(files, f"{folder}/counters", data),
        each_file_group(files, f"{folder}/counters", counters),
        each_file_group(files, f"{folder}/hw_counters", hardware),
    ]


def port_facts(files: Source, device: str, port: str) -> dict[str, Any]:
    """Facts of one port, null where the driver does not tell. MTU is that of the Ethernet interface on RoCE."""
    folder = f"{INFINIBAND}/{device}/ports/{port}"
    rate = str(files.ask(f"{folder}/rate").value or "")
    interface = files.ask(f"{folder}/gid_attrs/ndevs/0").value
    return {
        "link_layer": files.ask(f"{folder}/link_layer").value,
        "roce": is_roce(files, folder),
        "rate": rate or None,
        "rate_gbit": number(rate.partition(" ")[0]),
        "state": _after_colon(files.ask(f"{folder}/state").value),
        "physical_state": _after_colon(files.ask(f"{folder}/phys_state").value),
        "interface": interface,
        "mtu": number(str(files.ask(f"sys/class/net/{interface}/mtu").value)) if interface else None,
        "gids": gids(files, folder),
    }


def gids(files: Source, folder: str) -> list[dict[str, str | None]]:
    """The GIDs in use: index, type (`IB/RoCE v1`, `RoCE v2`) and interface. The addresses themselves are left out."""
    found = []
    for index in files.under(f"{folder}/gids"):
        gid = str(files.ask(f"{folder}/gids/{index}").value or "")
        if gid.strip("0:"):
            kind = files.ask(f"{folder}/gid_attrs/types/{index}").value
            found.append(
                {"index": index, "type": kind, "interface": files.ask(f"{folder}/gid_attrs/ndevs/{index}").value}
            )
    return sorted(found, key=lambda gid: int(str(gid["index"])))


def is_roce(files: Source, folder: str) -> bool:
    """Whether the port runs RDMA over Ethernet."""
    return str(files.ask(f"{folder}/link_layer").value) == "Ethernet"


def _data_columns(device: str | None) -> list[Column]:
    return [Column(name, "B", "counter", device, wraps_at=2.0**32 * LANES) for name in DATA]


def _after_colon(text: Any) -> str | None:
    """`ACTIVE` of `4: ACTIVE`."""
    return str(text).rpartition(":")[2].strip() if text else None
