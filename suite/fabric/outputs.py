"""What the tools of infiniband-diags print, as data. Pure; lines of another shape are passed over.

Shapes: iblinkinfo(8) -l, ibstat(8), ibqueryerrors(8), perfquery(8) and smpquery(8) portinfo, run against ibsim, Debian's
simulated fabric, and never on an adapter.
"""

import re
from dataclasses import dataclass, field

_LINK = re.compile(
    r"^(?P<guid>\S+)\s+\"(?P<node>[^\"]*)\"\s+\S+\s+(?P<port>\d+)\[[^\]]*\]\s*==\((?P<state>[^)]*)\)==>\s*(?P<rest>.*)$"
)
_RUNNING = re.compile(r"(?P<width>\d+X)\s+(?P<speed>[\d.]+ Gbps)\s+(?P<logical>\w+)/\s*(?P<physical>\w+)")
_PEER = re.compile(r"(?P<port>\d+)\[[^\]]*\]\s+\"(?P<node>[^\"]*)\"")
_COULD = re.compile(r"Could be ([\d.]+(?:X| Gbps))")
_DOTTED = re.compile(r"^(\w+):\.*(\S.*)$")
_ERRORS = re.compile(r"^\s*GUID (?P<guid>\S+) port (?P<port>\w+):(?P<counters>(?: \[\w+ == \d+(?: \([^)]*\))?\])+)")
_COUNTER = re.compile(r"\[(\w+) == (\d+)")
_NODE = re.compile(r"^Errors for (?:\S+ )?\"([^\"]*)\"")


@dataclass(frozen=True)
class Link:
    """One end of a link as iblinkinfo shows it."""

    node: str
    port: int
    width: str | None
    """`4X`, None where the link is down."""
    speed: str | None
    """Signalling rate of a lane, `25.78125 Gbps`."""
    state: str
    """`Active/LinkUp`, `Down/Polling`."""
    peer: str | None
    peer_port: int | None
    could_be: tuple[str, ...]
    """What both ends could do beyond this: `12X`, `10.0 Gbps`."""


def iblinkinfo(text: str) -> list[Link]:
    """The rows of `iblinkinfo -l`."""
    links = []
    for line in text.splitlines():
        row = _LINK.match(line)
        if row is None:
            continue
        running, peer = _RUNNING.search(row["state"]), _PEER.search(row["rest"])
        state = "".join(row["state"].split()) if running is None else f"{running['logical']}/{running['physical']}"
        links.append(
            Link(
                node=row["node"].strip(),
                port=int(row["port"]),
                width=running["width"] if running else None,
                speed=running["speed"] if running else None,
                state=state,
                peer=peer["node"].strip() if peer and peer["node"].strip() else None,
                peer_port=int(peer["port"]) if peer else None,
                could_be=tuple(_COULD.findall(row["rest"])),
            )
        )
    return links


@dataclass
class Adapter:
    """One adapter as ibstat shows it: its own lines and those of each port, by their labels."""

    name: str
    fields: dict[str, str] = field(default_factory=dict)
    ports: dict[int, dict[str, str]] = field(default_factory=dict)


def ibstat(text: str) -> list[Adapter]:
    """The adapters of this host."""
    adapters: list[Adapter] = []
    into: dict[str, str] = {}
    for line in text.splitlines():
        head = re.match(r"^(?:CA|Switch|Router) '([^']+)'", line)
        port = re.match(r"^\s+Port (\d+):\s*$", line)
        label, colon, value = line.strip().partition(":")
        if head:
            adapters.append(Adapter(head[1]))
            into = adapters[-1].fields
        elif port and adapters:
            into = adapters[-1].ports.setdefault(int(port[1]), {})
        elif colon and adapters:
            into[label] = value.strip()
    return adapters


def dotted(text: str) -> dict[str, str]:
    """`Name:.....value` lines of perfquery and of smpquery portinfo."""
    return {found[1]: found[2].strip() for line in text.splitlines() if (found := _DOTTED.match(line))}


def perfquery(text: str) -> dict[str, int]:
    """Counter -> value."""
    return {name: int(value) for name, value in dotted(text).items() if value.isdecimal() and name != "PortSelect"}


@dataclass(frozen=True)
class PortErrors:
    """Counters of one port that stand above ibqueryerrors' thresholds."""

    node: str
    port: str
    """A number, or `ALL`, the sum over a switch."""
    counters: dict[str, int]


def ibqueryerrors(text: str) -> list[PortErrors]:
    """Ports with errors; [] where every counter is below its threshold."""
    found, node = [], ""
    for line in text.splitlines():
        heading, row = _NODE.match(line), _ERRORS.match(line)
        if heading:
            node = heading[1].strip()
        elif row:
            counters = {name: int(value) for name, value in _COUNTER.findall(row["counters"])}
            found.append(PortErrors(node, row["port"], counters))
    return found
