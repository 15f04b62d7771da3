"""Where a device sits on the PCI buses, and how near two devices are to each other, from /sys."""

import re
from typing import Any

from tfscale.suite.environment.reading import integer, text
from tfscale.suite.sources.base import Source

_ADDRESS = re.compile(r"^([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])$")


def sysfs_address(address: str) -> str | None:
    """`00000000:81:00.0` (NVML: eight digits of domain) as `0000:81:00.0` (sysfs); None for what is no address."""
    match = _ADDRESS.match(address.strip())
    if match is None:
        return None
    return f"{int(match[1], 16):04x}:{match[2].lower()}:{match[3].lower()}.{match[4]}"


def place(files: Source, address: str) -> dict[str, Any]:
    """NUMA node, bus path (root port first) and link of the PCI device at `address` (sysfs form)."""
    folder = f"sys/bus/pci/devices/{address}"
    resolved = text(files, folder)
    path = (
        [part for part in resolved.split("/") if _ADDRESS.match(part) or part.startswith("pci")] if resolved else None
    )
    return {
        "pci": address,
        "numa_node": numa_node(files, folder),
        "pci_path": path,
        "link": {
            "speed": text(files, f"{folder}/current_link_speed"),
            "width": text(files, f"{folder}/current_link_width"),
            "max_speed": text(files, f"{folder}/max_link_speed"),
            "max_width": text(files, f"{folder}/max_link_width"),
        },
    }


def numa_node(files: Source, folder: str) -> int | None:
    """The NUMA node of the device in `folder`; the kernel's -1 means that the firmware does not tell."""
    node = integer(files, f"{folder}/numa_node")
    return int(node.value) if node.ok and node.value >= 0 else None


def distance(one: dict[str, Any], other: dict[str, Any]) -> str | None:
    """How far two `place`s are apart, in the words of `nvidia-smi topo -m`, by bus path and NUMA node.

    PIX: at most one bridge between them; PXB: more bridges, below one root port; PHB: one root complex; NODE: one NUMA
    node; SYS: across nodes. None where /sys does not tell. The vendor's tool is the authority: never compared here on
    a machine that has it.
    """
    first, second = one["pci_path"], other["pci_path"]
    if not first or not second:
        return None
    common = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        common += 1
    if common >= 2:  # the root complex and a port below it
        bridges = max(len(first), len(second)) - 1 - common
        return "PIX" if bridges <= 1 else "PXB"
    if common == 1:
        return "PHB"
    if one["numa_node"] is None or other["numa_node"] is None:
        return None
    return "NODE" if one["numa_node"] == other["numa_node"] else "SYS"
