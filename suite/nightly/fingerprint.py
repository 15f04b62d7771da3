"""Which machine a record was made on: what may be compared, and what never is. Pure.

Models and numbers of processors and GPUs, memory in whole GiB and the kind of link. No clock, name, address or version:
those differ from boot to boot, or are what a change may be blamed on.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

GIB = 2**30
_CLOCK = re.compile(r"\s*@\s*[\d.]+\s*[GM]Hz", re.IGNORECASE)
_SAME_MEMORY_GIB = 1


@dataclass(frozen=True, order=True)
class Machine:
    """Equal where two records may be compared."""

    cpu: str
    gpus: str
    links: str
    memory_gib: int
    """0: unknown."""

    def __str__(self) -> str:
        memory = f"{self.memory_gib} GiB" if self.memory_gib else "memory unknown"
        return ", ".join(part for part in (self.cpu, self.gpus, memory, self.links) if part)


def machine(environment: Mapping[str, Any]) -> Machine:
    """The machine of an environment as a record holds it; whatever is not known reads `unknown` or is left out."""
    memory = environment.get("memory_bytes")
    return Machine(
        cpu=_cpu(_mapping(environment.get("cpu"))),
        gpus=_gpus(environment.get("gpus")),
        links=_links(environment),
        memory_gib=_gib(memory),
    )


def merged(machines: Iterable[Machine]) -> dict[Machine, Machine]:
    """Each machine -> the one that stands for it: those that differ by a GiB of memory at most are one.

    What a kernel keeps for itself differs from one to the next, and may lie astride a whole GiB.
    """
    stands: dict[Machine, Machine] = {}
    for each in sorted(set(machines)):
        before = max(stands, default=None)
        near = before is not None and replace(before, memory_gib=each.memory_gib) == each
        if before is not None and near and 0 < before.memory_gib >= each.memory_gib - _SAME_MEMORY_GIB:
            stands[each] = stands[before]
        else:
            stands[each] = each
    return stands


def _cpu(cpu: Mapping[str, Any]) -> str:
    model = " ".join(_CLOCK.sub("", str(cpu.get("model") or "unknown processor")).split())
    counts = [f"{cpu[name]} {name}" for name in ("sockets", "cores", "threads") if isinstance(cpu.get(name), int)]
    return " ".join([model, *([f"({', '.join(counts)})"] if counts else [])])


def _gpus(cards: Any) -> str:
    known = [card for card in cards if isinstance(card, Mapping)] if isinstance(cards, list) else []
    counts = Counter(
        f"{card.get('name') or 'unknown GPU'} {_gib(card.get('memory_bytes')) or 'unknown'} GiB" for card in known
    )
    return ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))


def _links(environment: Mapping[str, Any]) -> str:
    """Kinds, not rates: a link that trains down is a cause to be named, not another machine."""
    kinds = set()
    for device in _list(environment.get("rdma")):
        kinds |= {str(port["link_layer"]) for port in _list(device.get("ports")) if port.get("link_layer")}
    rdma = {f"RDMA over {kind}" for kind in kinds}
    plain = {"Ethernet"} if _list(environment.get("nics")) else set()
    rows = _mapping(_mapping(environment.get("topology")).get("links")).values()
    cards = {link for row in rows for name, link in _mapping(row).items() if str(name).startswith("GPU") and link}
    between = {"NVLink" if str(link).startswith("NV") else "PCIe" for link in cards}
    return ", ".join(sorted(between) + sorted(rdma or plain))


def _gib(value: Any) -> int:
    return round(value / GIB) if isinstance(value, int | float) and value > 0 else 0


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []
