"""What NCCL_DEBUG=INFO wrote: the network, the devices, and how each channel travels.

Line formats differ by version and are matched loosely, 2.4 to 2.2x: `Ring 00 : 0 -> 1 [send] via NET/IB/0/GDRDMA` became
`Channel 00 : ...`, then `Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0(3)/GDRDMA(PCI)/Shared` (src/transport/net.cc,
p2p.cc, shm.cc, coll_net.cc of NCCL). `Bootstrap` lines name the control channel, which carries no data. Never read here
from a run of our own: there was no GPU.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["P2P", "SHM", "NET", "COLLNET", "other"]

_MESSAGE = re.compile(r"NCCL (INFO|WARN) (.*)$")
_VERSION = re.compile(r"NCCL version (\d[\w.+]*)")
_CHANNEL = re.compile(
    r"(?:Channel|Ring|Tree|CollNet)\s+(?P<channel>\d+)(?:/\d+)?\s*:\s*(?P<sender>\d+)(?:\[[^\]]*\])?"
    r"(?:\s*->\s*(?P<receiver>\d+)(?:\[[^\]]*\])?)?\s*(?:\[(?P<direction>send|receive)\])?\s*via\s+(?P<via>.+?)\s*$"
)
_NET = re.compile(r"^(?:NET|COLLNET)/(?P<network>.+?)/(?P<device>\d+)(?:\(\d+\))?(?P<rest>(?:/.*)?)$")
_RING = re.compile(r"^(?:Channel|Ring)\s+(\d+)(?:/\d+)?\s*:(?:\s+\d+)+\s*$")
_TREES = re.compile(r"^Trees? (?=\[\d+\])")
_NETWORK = re.compile(r"(?:Using network|Assigned NET plugin) (.+?)(?: to comm)?\s*$")
_DEVICES = re.compile(r"NET/(\w+)\s*: Using (.*?)(?:;|$)")
_DEVICE = re.compile(r"\[\d+\]\s*([^\s:]+(?::\d+(?:/\w+)?)?)")
_NO_DEVICE = re.compile(r"NET/(\w+)\s*: No device found")
_PLUGIN = re.compile(r"(?:Loaded|Using) (net|collnet|tuner|profiler) plugin:? '?([^'(]+)")
_MEMBER = re.compile(r"\brank (\d+) nranks (\d+)\b")
_MOST_WARNINGS = 20


@dataclass(frozen=True)
class Channel:
    """One direction of one channel between two ranks, as one of them wrote it down."""

    number: int
    sender: int
    receiver: int | None
    """None for in-network reduction (COLLNET), which has a switch at the other end."""
    kind: Kind
    via: str
    """`NET/IB/0/GDRDMA`, `P2P/IPC/read`, `SHM/direct/direct`, as written."""
    network: str | None = None
    """IB, Socket, or a plugin's name; None inside a host."""
    device: int | None = None
    gpu_direct: bool | None = None
    """Whether the adapter reads GPU memory itself; None inside a host."""


@dataclass(frozen=True)
class Log:
    """What one log, or all logs of a launch, tell."""

    lines: int = 0
    """Lines of NCCL."""
    version: str | None = None
    networks: tuple[str, ...] = ()
    """Networks that were chosen; that they carry anything is told by channels alone."""
    devices: tuple[str, ...] = ()
    """`mlx5_0:1/IB`, `eno1`: what each network may use."""
    without_device: tuple[str, ...] = ()
    """Networks that found nothing: IB, mostly."""
    channels: tuple[Channel, ...] = ()
    rings: int = 0
    trees: int = 0
    plugins: tuple[str, ...] = ()
    """`tuner Example`, `net AWS Libfabric`."""
    ranks: frozenset[int] = frozenset()
    """Ranks that finished their set-up."""
    world: int | None = None
    """Ranks of the largest communicator."""
    warnings: tuple[str, ...] = ()

    def summary(self) -> dict[str, Any]:
        """Plain data for a record: counts instead of channels."""
        return {
            "version": self.version,
            "networks": list(self.networks),
            "devices": list(self.devices),
            "without_device": list(self.without_device),
            "channels": dict(sorted(Counter(_family(channel) for channel in self.channels).items())),
            "rings": self.rings,
            "trees": self.trees,
            "plugins": list(self.plugins),
            "ranks": len(self.ranks),
            "world": self.world,
            "warnings": list(self.warnings),
        }


def _family(channel: Channel) -> str:
    if channel.network is None:
        return channel.via
    return f"{channel.kind}/{channel.network}" + ("/GDRDMA" if channel.gpu_direct else "")


def parse(text: str) -> Log:
    """The log of one process; lines of anybody else are passed over."""
    version: str | None = None
    lines, world = 0, 0
    networks: list[str] = []
    devices: list[str] = []
    without: list[str] = []
    plugins: list[str] = []
    warnings: list[str] = []
    channels: list[Channel] = []
    rings: set[int] = set()
    ranks: set[int] = set()
    trees = 0
    for line in text.splitlines():
        told = _VERSION.search(line)
        version = version or (told[1] if told else None)
        written = _MESSAGE.search(line)
        if written is None:
            continue
        lines += 1
        level, message = written[1], written[2].strip()
        if level == "WARN":
            warnings.append(message)
        if message.startswith("Bootstrap"):
            continue
        if found := _CHANNEL.search(message):
            channels.append(_channel(found))
        elif ring := _RING.match(message):
            rings.add(int(ring[1]))
        elif _TREES.match(message):
            trees = max(trees, len(re.findall(r"\[\d+\]", message)))
        elif found := _NETWORK.search(message):
            networks.append(found[1])
        elif found := _NO_DEVICE.search(message):
            without.append(found[1])
        elif found := _DEVICES.search(message):
            devices += [_named(name, found[1]) for name in _DEVICE.findall(found[2])]
        elif found := _PLUGIN.search(message):
            plugins.append(f"{found[1]} {found[2].strip()}")
        elif (found := _MEMBER.search(message)) and message.endswith("Init COMPLETE"):
            ranks.add(int(found[1]))
            world = max(world, int(found[2]))
    return Log(
        lines=lines,
        version=version,
        networks=_once(networks),
        devices=_once(devices),
        without_device=_once(without),
        channels=tuple(channels),
        rings=len(rings),
        trees=trees,
        plugins=_once(plugins),
        ranks=frozenset(ranks),
        world=world or None,
        warnings=_once(warnings)[:_MOST_WARNINGS],
    )


def _channel(found: re.Match[str]) -> Channel:
    via = found["via"]
    receiver = int(found["receiver"]) if found["receiver"] else None
    known: dict[str, Kind] = {"P2P": "P2P", "SHM": "SHM", "NET": "NET", "COLLNET": "COLLNET"}
    kind = "SHM" if "shared memory" in via else known.get(via.partition("/")[0], "other")
    net = _NET.match(via)
    if net is None:
        return Channel(int(found["channel"]), int(found["sender"]), receiver, kind, via)
    return Channel(
        number=int(found["channel"]),
        sender=int(found["sender"]),
        receiver=receiver,
        kind=kind,
        via=via,
        network=net["network"],
        device=int(net["device"]),
        gpu_direct="GDRDMA" in net["rest"],
    )


def _named(device: str, network: str) -> str:
    """A socket's device is an interface, and what follows its colon is an address."""
    return device.partition(":")[0] if network == "Socket" else device


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def joined(logs: Sequence[Log]) -> Log:
    """The logs of all processes of a launch as one."""
    worlds = [log.world for log in logs if log.world is not None]
    return Log(
        lines=sum(log.lines for log in logs),
        version=next((log.version for log in logs if log.version), None),
        networks=_once(name for log in logs for name in log.networks),
        devices=_once(name for log in logs for name in log.devices),
        without_device=_once(name for log in logs for name in log.without_device),
        channels=tuple(channel for log in logs for channel in log.channels),
        rings=max((log.rings for log in logs), default=0),
        trees=max((log.trees for log in logs), default=0),
        plugins=_once(name for log in logs for name in log.plugins),
        ranks=frozenset(rank for log in logs for rank in log.ranks),
        world=max(worlds, default=None),
        warnings=_once(warning for log in logs for warning in log.warnings)[:_MOST_WARNINGS],
    )
