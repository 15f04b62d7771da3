"""Network interfaces and RDMA devices, from /sys/class/net and /sys/class/infiniband."""

from typing import Any

from tfscale.suite.environment import pci
from tfscale.suite.environment.reading import integer, text, told
from tfscale.suite.sources.base import Answer, Source

_NET = "sys/class/net"
_RDMA = "sys/class/infiniband"
_INNER = ("lo", "veth", "cali", "lxc", "cilium", "tunl", "dummy", "ifb")
"""Interfaces that only lead to containers of this host, or nowhere; a large node has hundreds."""


def interfaces(files: Source) -> list[dict[str, Any]]:
    """Speed in Mbit/s, MTU, state, driver, place and RDMA devices of each interface that leads out of the host."""
    names = files.under(_NET)
    return [_interface(files, name) for name in names if name != "bonding_masters" and not name.startswith(_INNER)]


def _interface(files: Source, name: str) -> dict[str, Any]:
    folder = f"{_NET}/{name}"
    facts = {
        "name": name,
        **told(
            state=files.ask(f"{folder}/operstate"), mtu=integer(files, f"{folder}/mtu"), speed_mbit=speed(files, name)
        ),
        "driver": last_part(text(files, f"{folder}/device/driver")),
        "rdma": files.under(f"{folder}/device/infiniband"),
    }
    return {**facts, **_place(files, f"{folder}/device")}


def speed(files: Source, name: str) -> Answer:
    """Link speed in Mbit/s; the kernel says -1, or refuses, where a link is down or virtual."""
    answer = integer(files, f"{_NET}/{name}/speed")
    if answer.ok and answer.value <= 0:
        return Answer(
            state="unsupported", reason=f"/{_NET}/{name}/speed is {answer.value}: the link does not tell its speed"
        )
    return answer


def rdma_devices(files: Source) -> list[dict[str, Any]]:
    """RDMA devices: firmware, place, and each port's state, rate (`100 Gb/sec (4X EDR)`) and link layer."""
    return [
        {
            "name": name,
            "firmware": text(files, f"{_RDMA}/{name}/fw_ver"),
            "driver": last_part(text(files, f"{_RDMA}/{name}/device/driver")),
            "ports": [_port(files, name, port) for port in files.under(f"{_RDMA}/{name}/ports")],
            **_place(files, f"{_RDMA}/{name}/device"),
        }
        for name in files.under(_RDMA)
    ]


def _port(files: Source, device: str, port: str) -> dict[str, Any]:
    folder = f"{_RDMA}/{device}/ports/{port}"
    return {"port": port, **{name: text(files, f"{folder}/{name}") for name in ("state", "rate", "link_layer")}}


def _place(files: Source, folder: str) -> dict[str, Any]:
    address = last_part(text(files, folder))
    return pci.place(files, address) if address and pci.sysfs_address(address) else {}


def last_part(path: str | None) -> str | None:
    return path.rpartition("/")[2] if path else None
