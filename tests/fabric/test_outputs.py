"""What the tools print: rows as ibsim and the tools' manuals have them."""

import pytest

from tfscale.suite.fabric import outputs
from tfscale.suite.fabric.outputs import Link, PortErrors

_ROWS = """\
0x0000000000100004 "                         node2"      3    1[  ] ==( 1X           2.5 Gbps Active/  LinkUp)==>\
  0x0000000000200000      2    4[  ] "switch1" (Could be 12X Could be 10.0 Gbps)
0x506b4b0300c2c0a0 "          node7 HCA-1"     17    1[  ] ==( 4X        25.78125 Gbps Active/  LinkUp)==>\
  0x7cfe900300aabbcc      5   31[  ] "MF0;ibsw01:MSB7700/U1" ( )
0x0000000000200000 "                       switch1"      2    2[  ] ==(                Down/ Polling)==>             [  ] "" ( )
ibwarn: [1] something else
"""


def test_iblinkinfo() -> None:
    assert outputs.iblinkinfo(_ROWS) == [
        Link("node2", 1, "1X", "2.5 Gbps", "Active/LinkUp", "switch1", 4, ("12X", "10.0 Gbps")),
        Link("node7 HCA-1", 1, "4X", "25.78125 Gbps", "Active/LinkUp", "MF0;ibsw01:MSB7700/U1", 31, ()),
        Link("switch1", 2, None, None, "Down/Polling", None, None, ()),
    ]


def test_the_same_rows_with_other_names_in_place_of_guids_and_lids() -> None:
    row = '"HOST-0001"  LID-0001  1[  ] ==( 4X 10.0 Gbps Active/ LinkUp)==>  GUID-0002  LID-0002  4[  ] "HOST-0002" ( )'
    (link,) = outputs.iblinkinfo(f"GUID-0001 {row}")
    assert (link.node, link.port, link.width, link.peer, link.peer_port) == ("HOST-0001", 1, "4X", "HOST-0002", 4)


def test_ibstat_with_two_adapters() -> None:
    one, other = outputs.ibstat(
        "CA 'mlx5_0'\n\tCA type: MT4123\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n\t\tRate: 100\n"
        "\t\tLink layer: InfiniBand\nCA 'mlx5_1'\n\tCA type: MT4123\n\tPort 1:\n\t\tState: Down\n\t\tLink layer: Ethernet\n"
    )
    assert (one.name, one.fields["CA type"], one.ports[1]["Rate"]) == ("mlx5_0", "MT4123", "100")
    assert other.ports == {1: {"State": "Down", "Link layer": "Ethernet"}}


def test_perfquery_and_portinfo() -> None:
    text = "# Port counters: Lid 3 port 1\nPortSelect:......................1\nSymbolErrorCounter:..............5\n"
    assert outputs.perfquery(text + "CounterSelect:...................0x0000\n") == {"SymbolErrorCounter": 5}
    assert outputs.dotted("NeighborMTU:.....................2048\nMkey:....<not displayed>\n")["NeighborMTU"] == "2048"


@pytest.mark.parametrize("unit", ["", " (1.2 KB)"])
def test_ibqueryerrors(unit: str) -> None:
    text = (
        'Errors for 0x200000 "switch1"\n   GUID 0x200000 port ALL: [PortRcvErrors == 12]\n'
        f'   GUID 0x200000 port 4: [PortRcvErrors == 12{unit}] [LinkDownedCounter == 2]\nErrors for "node2"\n'
        "   GUID 0x100004 port 1: [SymbolErrorCounter == 5]\n\n## Summary: 4 nodes checked, 2 bad nodes found\n"
    )
    assert outputs.ibqueryerrors(text) == [
        PortErrors("switch1", "ALL", {"PortRcvErrors": 12}),
        PortErrors("switch1", "4", {"PortRcvErrors": 12, "LinkDownedCounter": 2}),
        PortErrors("node2", "1", {"SymbolErrorCounter": 5}),
    ]
    assert outputs.ibqueryerrors("## Summary: 4 nodes checked, 0 bad nodes found\n") == []
