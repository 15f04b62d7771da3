"""How many bytes a host has to move over its adapters for an all-reduce, and whether its counters show them. Pure.

H hosts with g GPUs each, n = H g ranks, S bytes in every rank (the gradients of a step), H > 1. What crosses a host's edge,
in each direction:

Ring. NCCL orders a ring so that it enters and leaves every host once; the other edges are NVLink, PCIe or shared memory.
An edge of a ring carries 2 S (n-1)/n: n - 1 chunks of S/n for the reduce-scatter and n - 1 for the all-gather. k
channels are k rings over S/k each. A host sends, and receives, 2 S (n-1)/n.

Double binary tree (Sanders, Speck, Traeff 2009, which NCCL names as its source). The hosts are the nodes of two trees, each
for one half of S; GPUs of a host form a chain. Every edge carries S/2 up and S/2 down, so a host sends, and receives, S/2
for each edge that it has. A host is a leaf (one edge) in at least one of the trees, and has at most three edges in the
other (its parent, two children), never more than H - 1: from S/2 (1 + 1) = S to S/2 (1 + min(3, H-1)).

In-network reduction (CollNet, SHARP). S up, S down: S.

So the least is S, of a leaf or of in-network reduction (a ring is never below: n >= 2), and the most is the larger of
2 S (n-1)/n and S/2 (1 + min(3, H-1)). Which one of them NCCL takes depends on size and version: a range, not a value.
"""

from dataclasses import dataclass
from typing import Literal

Where = Literal["within", "below", "above"]
Protocol = Literal["any", "Simple", "LL128", "LL"]

FLAGS: dict[Protocol, float] = {"any": 2.0, "LL": 2.0, "LL128": 128 / 120, "Simple": 1.0}
"""Bytes on the wire for one of payload at most: LL sends 4 bytes of flag with 4 of data, LL128 8 with 120."""
HEADERS = 0.07
"""Headers and acknowledgements, as a share of the payload: some 66 bytes in a packet of 1024, the smallest usual one."""
SLACK = 0.02
"""Share by which a counter may miss what the first and last step of a window moved."""


@dataclass(frozen=True)
class Traffic:
    """Bytes of payload that a host moves in one direction for one all-reduce, at least and at most."""

    low: float
    high: float


def all_reduce(size: float, hosts: int, gpus: int) -> Traffic:
    """The range for `size` bytes over `hosts` hosts with `gpus` each; (0, 0) for one host. ValueError below 1 or 0."""
    if hosts < 1 or gpus < 1 or size < 0:
        raise ValueError(f"{size} bytes over {hosts} hosts with {gpus} GPUs: sizes from 0, hosts and GPUs from 1")
    if hosts == 1:
        return Traffic(0.0, 0.0)
    ranks = hosts * gpus
    ring = 2 * size * (ranks - 1) / ranks
    tree = size / 2 * (1 + min(3, hosts - 1))
    return Traffic(float(size), max(ring, tree))


def compare(
    grown: float, steps: int, step: Traffic, *, protocol: Protocol = "any", headers: float = HEADERS
) -> tuple[Where, str]:
    """Growth of a host's RDMA counters in one direction, in bytes, over `steps` steps: where it lies, and what it means.

    `grown` is the sum over all adapters of the host. below: data went another way, over TCP or another adapter; above:
    others share the port, for its counters are of the port and not of a process. ValueError without a step.
    """
    if steps < 1:
        raise ValueError(f"{steps} steps: nothing to compare with")
    least = step.low * steps * (1 - SLACK)
    most = step.high * steps * FLAGS[protocol] * (1 + headers)
    told = f"{grown / 1e9:.4g} GB on the RDMA adapters over {steps} steps; {least / 1e9:.4g} to {most / 1e9:.4g} GB fit"
    if grown < least:
        return "below", f"{told}: the rest went another way, over TCP for one"
    if grown > most:
        return "above", f"{told}: something else used the same ports"
    return "within", told
