"""What tests of labs share. Not a test module."""

import shutil
import subprocess
from typing import Any

import pytest

from tfscale.suite.netlab import namespaces
from tfscale.suite.topology import Topology


def need_labs() -> None:
    """Skip where this process, or this machine, cannot have network namespaces."""
    if reason := namespaces.refusal():
        pytest.skip(reason)
    if not (shutil.which("ip") and shutil.which("tc")):
        pytest.skip("labs need iproute2")
    tried = subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"no network namespaces here: {tried.stderr.strip()}")


def topology(**fields: Any) -> Topology:
    return Topology.model_validate(fields)


def two_racks(link: str = "1Gbit", uplink: str = "200Mbit", hosts: str = "aabb") -> Topology:
    rack = {"link": link, "uplink": uplink}
    return topology(name="racks", racks={"a": rack, "b": rack}, hosts=list(hosts))


def has_netem() -> bool:
    """Whether this kernel can delay packets: tried in a namespace that ends with the command."""
    words = "tc qdisc add dev lo root netem delay 1ms"
    return subprocess.run(["unshare", "--net", *words.split()], check=False, capture_output=True).returncode == 0
