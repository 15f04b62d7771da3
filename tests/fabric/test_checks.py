"""Judgements on ports, one table each."""

import pytest

from tfscale.suite.fabric import checks
from tfscale.suite.fabric.outputs import Link, PortErrors

UP = Link("n1", 1, "4X", "25.78125 Gbps", "Active/LinkUp", "sw", 7, ())
SLOW = Link("n2", 1, "1X", "2.5 Gbps", "Active/LinkUp", "sw", 4, ("4X", "10.0 Gbps"))
DOWN = Link("n3", 1, None, None, "Down/Polling", None, None, ())


@pytest.mark.parametrize(
    ("links", "status", "words"),
    [
        ([UP], "VALID", "1 links run at their best (4X at 25.78125 Gbps)"),
        ([UP, DOWN], "VALID", "1 links"),
        ([UP, SLOW], "SUSPECT", "1 of 2 links run below what both ends can: n2 port 1 to sw runs 1X at 2.5 Gbps"),
        ([DOWN], "SUSPECT", "none of 1 ports has a link"),
        ([], "UNKNOWN", "no link"),
    ],
)
def test_links(links: list[Link], status: str, words: str) -> None:
    check = checks.link(links)
    assert (check.status, words in check.detail) == (status, True), check.detail
    assert (check.advice is not None) == (status == "SUSPECT")


def test_a_slow_link_says_what_it_could_be() -> None:
    assert "could 4X and 10.0 Gbps" in checks.link([SLOW]).detail
    assert checks.link([SLOW]).evidence["links"][0]["could_be"] == ("4X", "10.0 Gbps")


@pytest.mark.parametrize(
    ("ports", "status"),
    [
        ({}, "UNKNOWN"),
        ({"a": {"SymbolErrorCounter": 0, "LinkDownedCounter": 0}}, "VALID"),
        ({"a": {"SymbolErrorCounter": 1}}, "SUSPECT"),
        ({"a": {"SymbolErrorCounter": 0}, "b": {"LinkDownedCounter": 3}}, "SUSPECT"),
        ({"a": {"PortXmitWait": 999, "VL15Dropped": 2, "PortRcvSwitchRelayErrors": 5}}, "VALID"),
    ],
)
def test_errors(ports: dict[str, dict[str, int]], status: str) -> None:
    check = checks.errors(ports)
    assert check.status == status
    if "b" in ports:
        assert "b: LinkDownedCounter 3" in check.detail
        assert "SymbolErrorCounter" not in check.detail


def test_only_the_other_end_of_the_link_counts_on_a_switch() -> None:
    found = [PortErrors("sw", "ALL", {"x": 3}), PortErrors("sw", "7", {"x": 1}), PortErrors("sw", "8", {"x": 2})]
    assert checks.of_peer(found, UP) == {"sw port 7": {"x": 1}}
    assert checks.of_peer(found, DOWN) == {}


@pytest.mark.parametrize(
    ("infiniband", "roce", "status"),
    [
        ({}, {}, None),
        ({"a": (4096, 4096)}, {}, "VALID"),
        ({"a": (2048, 4096)}, {}, "SUSPECT"),
        ({}, {"a": 9000, "b": 9000}, "VALID"),
        ({}, {"a": 9000, "b": 1500}, "SUSPECT"),
        ({"a": (4096, 4096)}, {"b": 1500}, "VALID"),
    ],
)
def test_mtu(infiniband: dict[str, tuple[int, int]], roce: dict[str, int], status: str | None) -> None:
    check = checks.mtu(infiniband, roce)
    assert (check.status if check else None) == status


@pytest.mark.parametrize(
    ("limit", "status"),
    [("unlimited", "VALID"), (1 << 30, "VALID"), ((1 << 30) - 1, "SUSPECT"), (65536, "SUSPECT"), (None, "UNKNOWN")],
)
def test_memlock(limit: int | str | None, status: str) -> None:
    assert checks.memlock(limit).status == status
