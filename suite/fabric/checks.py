"""Judgements on a host's RDMA ports, each a pure function from what was read to a Check."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from tfscale.suite.fabric.outputs import Link, PortErrors
from tfscale.suite.record import Check

MEMLOCK_BYTES = 1 << 30
"""What RDMA has to lock at the least: buffers of 4 MiB (NCCL_BUFFSIZE) x 2 directions x 32 channels x 4 peers. Our estimate."""

NOT_JUDGED = ("PortRcvSwitchRelayErrors", "PortXmitWait", "VL15Dropped", "QP1Dropped")
"""Counters that grow in health: a multicast that comes back, waiting for credits, management packets."""
ERRORS = {
    "symbol_error": "SymbolErrorCounter",
    "link_error_recovery": "LinkErrorRecoveryCounter",
    "link_downed": "LinkDownedCounter",
    "port_rcv_errors": "PortRcvErrors",
    "port_rcv_remote_physical_errors": "PortRcvRemotePhysicalErrors",
    "port_xmit_discards": "PortXmitDiscards",
    "port_xmit_constraint_errors": "PortXmitConstraintErrors",
    "port_rcv_constraint_errors": "PortRcvConstraintErrors",
    "local_link_integrity_errors": "LocalLinkIntegrityErrors",
    "excessive_buffer_overrun_errors": "ExcessiveBufferOverrunErrors",
}
"""File in /sys -> counter of the InfiniBand specification, as the tools name it: what is an error wherever it is above 0."""


def link(links: Sequence[Link]) -> Check:
    """Whether each link that is up runs as wide and as fast as both of its ends can."""
    up = [one for one in links if one.width is not None]
    slow = [one for one in up if one.could_be]
    told = {"links": [asdict(one) for one in links]}
    if not up:
        return Check(
            name="fabric_link",
            status="UNKNOWN" if not links else "SUSPECT",
            detail="no link of the fabric was shown" if not links else f"none of {len(links)} ports has a link",
            evidence=told,
            advice="see that the cable is plugged in, and that a subnet manager runs" if links else None,
        )
    if slow:
        named = "; ".join(f"{_ends(one)} runs {one.width} at {one.speed}, could {_could(one)}" for one in slow)
        return Check(
            name="fabric_link",
            status="SUSPECT",
            detail=f"{len(slow)} of {len(up)} links run below what both ends can: {named}",
            evidence=told,
            advice="reseat or replace the cable; see LinkWidthEnabled and LinkSpeedEnabled with `ibportstate` on both ends",
        )
    running = ", ".join(sorted({f"{one.width} at {one.speed}" for one in up}))
    return Check(
        name="fabric_link", status="VALID", detail=f"{len(up)} links run at their best ({running})", evidence=told
    )


def _ends(one: Link) -> str:
    return f"{one.node} port {one.port}" + (f" to {one.peer}" if one.peer else "")


def _could(one: Link) -> str:
    return " and ".join(one.could_be)


def errors(ports: Mapping[str, Mapping[str, int]]) -> Check:
    """Port -> counter -> value since the counters were last cleared; any error above 0 is told."""
    if not ports:
        return Check(name="fabric_errors", status="UNKNOWN", detail="no error counter of the fabric could be read")
    bad = {
        port: found
        for port, counters in ports.items()
        if (found := {name: value for name, value in counters.items() if value and name not in NOT_JUDGED})
    }
    told = {"ports": {port: dict(counters) for port, counters in ports.items()}}
    if not bad:
        return Check(name="fabric_errors", status="VALID", detail=f"no errors on {len(ports)} ports", evidence=told)
    named = "; ".join(f"{port}: " + ", ".join(f"{n} {v}" for n, v in found.items()) for port, found in bad.items())
    return Check(
        name="fabric_errors",
        status="SUSPECT",
        detail=f"errors were counted on {len(bad)} of {len(ports)} ports ({named})",
        evidence=told,
        advice="clear them (`perfquery -R`), run again, and see whether they grow; a rebooted peer alone counts LinkDowned",
    )


def of_peer(found: Sequence[PortErrors], link: Link) -> dict[str, dict[str, int]]:
    """What ibqueryerrors tells of the other end of `link`, in the form that `errors` takes; {} where it is in health."""
    return {
        f"{one.node} port {one.port}": one.counters
        for one in found
        if one.node == link.peer and one.port == str(link.peer_port)
    }


def mtu(infiniband: Mapping[str, tuple[int, int]], roce: Mapping[str, int]) -> Check | None:
    """InfiniBand port -> (MTU in use, MTU that it can), RoCE port -> MTU of its interface. None without any port.

    On RoCE the largest power of two below the interface's MTU, at most 4096, is used; interfaces of a host that differ
    are a mismatch.
    """
    told = {"infiniband": {port: list(pair) for port, pair in infiniband.items()}, "roce": dict(roce)}
    if not infiniband and not roce:
        return None
    low = [f"{port} uses {used} of {most}" for port, (used, most) in infiniband.items() if used < most]
    mixed = len(set(roce.values())) > 1
    if low or mixed:
        parts = low + ([", ".join(f"{port} has {size}" for port, size in roce.items())] if mixed else [])
        return Check(
            name="fabric_mtu",
            status="SUSPECT",
            detail=f"MTUs do not match: {'; '.join(parts)}",
            evidence=told,
            advice="set the same MTU on every port of the fabric (the partition's in the subnet manager; `ip link` for RoCE)",
        )
    sizes = sorted({used for used, _ in infiniband.values()} | set(roce.values()))
    detail = f"{len(infiniband) + len(roce)} ports use an MTU of {', '.join(map(str, sizes))}"
    return Check(name="fabric_mtu", status="VALID", detail=detail, evidence=told)


def memlock(limit: int | str | None) -> Check:
    """The limit on locked memory (bytes, or `unlimited`) against what RDMA has to lock. For hosts that have RDMA."""
    told = {"memlock_bytes": limit, "needed_bytes": MEMLOCK_BYTES}
    if limit is None:
        return Check(name="memlock", status="UNKNOWN", detail="the limit on locked memory is unknown", evidence=told)
    if isinstance(limit, int) and limit < MEMLOCK_BYTES:
        return Check(
            name="memlock",
            status="SUSPECT",
            detail=f"this process may lock {limit:,} bytes; RDMA buffers take about {MEMLOCK_BYTES:,}",
            evidence=told,
            advice="`ulimit -l unlimited`, or LimitMEMLOCK=infinity for the service that starts the ranks (slurmd, docker)",
        )
    size = limit if isinstance(limit, str) else f"{limit:,} bytes"
    return Check(name="memlock", status="VALID", detail=f"locked memory: {size}", evidence=told)
