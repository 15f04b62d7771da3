"""GPUs as the driver and the buses show them, and the matrix of how they reach each other and the network."""

import re
from typing import Any

from tfscale.suite.environment import pci
from tfscale.suite.environment.reading import told
from tfscale.suite.sources.base import Answer, Source, Sources

NAME, PCI, MEMORY = "name", "pci", "memory_total"
"""Fields of the NVML source, asked as `<index>/<field>`."""
_TOPOLOGY = "nvidia-smi topo -m"
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def named(nvml: Source) -> list[dict[str, Any]] | None:
    """Name, memory and bus address of each GPU; [] where there is no driver, None where it does not answer."""
    count = nvml.ask("count")
    if not count.ok:
        return [] if count.state == "absent" else None
    cards = []
    for index in range(int(count.value)):
        name, memory = nvml.ask(f"{index}/{NAME}"), nvml.ask(f"{index}/{MEMORY}")
        memory = Answer(int(memory.value)) if memory.ok else memory
        cards.append({"index": index, **told(name=name, memory_bytes=memory, pci=_address(nvml, index))})
    return cards


def _address(nvml: Source, index: int) -> Answer:
    answer = nvml.ask(f"{index}/{PCI}")
    if not answer.ok:
        return answer
    address = pci.sysfs_address(str(answer.value))
    return Answer(address) if address else Answer(state="error", reason=f"{answer.value!r} is no PCI address")


def gpus(sources: Sources) -> list[dict[str, Any]] | None:
    """`named`, and where each card sits."""
    cards = named(sources.nvml)
    for card in cards or ():
        if card["pci"]:
            card.update(pci.place(sources.files, card["pci"]))
    return cards


def topology(sources: Sources, cards: list[dict[str, Any]] | None, nics: list[dict[str, Any]]) -> dict[str, Any] | None:
    """How GPUs and NICs reach each other: the vendor's own matrix, else what the buses tell. None without GPUs.

    `links` is row -> column -> NV<n>, PIX, PXB, PHB, NODE or SYS, null where unknown.
    """
    if not cards:
        return None
    answer = sources.commands.ask(_TOPOLOGY)
    if answer.ok and answer.value["rc"] == 0:
        table = matrix(answer.value["stdout"])
        if table:
            return {"source": _TOPOLOGY, "links": table}
    places = {f"GPU{card['index']}": card for card in cards if card.get("pci_path")}
    places |= {nic["name"]: nic for nic in nics if nic.get("pci_path")}
    links: dict[str, dict[str, str | None]] = {
        one: {other: pci.distance(places[one], places[other]) for other in places if other != one} for one in places
    }
    reason = answer.reason if not answer.ok else f"{_TOPOLOGY} ended with code {answer.value['rc']} or without a matrix"
    return {"source": "PCI paths in /sys", "reason": reason, "links": links}


def matrix(output: str) -> dict[str, dict[str, str]]:
    """The table of `nvidia-smi topo -m`: row -> column -> connection, GPU and NIC columns only; {} where there is none.

    The NIC legend (`NIC0: mlx5_0`) gives the NICs their names. Columns of affinity are left out: their headings hold
    spaces, and /sys tells the same.
    """
    lines = [_ESCAPE.sub("", line) for line in output.splitlines()]
    heading = next((line for line in lines if line.split()[:1] == ["GPU0"] and "\t" in line), None)
    if heading is None:
        return {}
    columns = [word for word in heading.split() if re.fullmatch(r"GPU\d+|NIC\d+|mlx\w+|bnxt\w+|irdma\w+|roce\w+", word)]
    legend = {m[1]: m[2] for line in lines if (m := re.fullmatch(r"\s*(NIC\d+):\s*(\S+)\s*", line))}
    names = [legend.get(column, column) for column in columns]
    links = {}
    for line in lines:
        name, *cells = line.split()[: len(columns) + 1] or [""]
        if name in columns and len(cells) == len(columns) and "X" in cells:
            row = legend.get(name, name)
            links[row] = {other: cell for other, cell in zip(names, cells, strict=True) if other != row}
    return links
