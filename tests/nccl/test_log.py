"""NCCL's log lines, old and new. The files hold lines written by hand in the shapes of NCCL's sources."""

from dataclasses import replace
from pathlib import Path

import pytest

from tfscale.suite.nccl.log import Channel, Log, joined, parse

LOGS = Path(__file__).parent / "logs"


def read(name: str) -> Log:
    return parse((LOGS / f"{name}.log").read_text())


def test_version_2_4() -> None:
    log = read("v2_4")
    assert (log.version, log.networks, log.devices) == ("2.4.8+cuda10.0", (), ("ib0", "mlx4_0:1/IB"))
    assert (log.rings, log.trees, log.world, log.ranks) == (2, 0, 4, {0})
    assert [(c.kind, c.network, c.gpu_direct) for c in log.channels] == [
        ("NET", "IB", False),
        ("SHM", None, None),
        ("NET", "IB", False),
        ("P2P", None, None),
    ]


def test_version_2_8() -> None:
    log = read("v2_8")
    assert (log.version, log.networks) == ("2.8.3+cuda11.0", ("IB",))
    assert log.devices == ("mlx5_0:1/IB", "mlx5_1:1/RoCE")
    assert (log.rings, log.trees) == (2, 2)
    assert log.channels[0] == Channel(0, 3, 0, "NET", "NET/IB/0/GDRDMA", "IB", 0, True)
    assert log.channels[2] == Channel(1, 0, 2, "NET", "NET/IB/1/GDRDMA/Shared", "IB", 1, True)


def test_version_2_18_on_sockets() -> None:
    log = read("v2_18_fallback")
    assert (log.networks, log.without_device, log.devices) == (("Socket",), ("IB",), ("eth0", "eth1"))
    assert [channel.via for channel in log.channels] == ["NET/Socket/0", "P2P/IPC/read", "SHM/direct/direct"]
    assert log.warnings == ("Cuda failure 'peer access is not supported between these two devices'",)
    assert log.version is None
    assert (log.ranks, log.world) == ({4}, 8)


def test_version_2_26_with_time_stamps_proxies_and_plugins() -> None:
    log = read("v2_26")
    assert (log.version, log.networks) == ("2.26.2+cuda12.2", ("IB",))
    assert log.plugins == ("net AWS Libfabric", "tuner Example")
    assert (log.rings, log.trees, log.world) == (2, 4, 16)
    assert [(c.number, c.sender, c.receiver, c.kind, c.device, c.gpu_direct) for c in log.channels] == [
        (0, 15, 0, "NET", 0, True),
        (1, 0, 8, "NET", 1, True),
        (0, 0, 1, "P2P", None, None),
        (0, 0, None, "COLLNET", 0, True),
    ]
    assert log.summary()["channels"] == {"COLLNET/SHARP/GDRDMA": 1, "NET/IB/GDRDMA": 2, "P2P/CUMEM/read": 1}


@pytest.mark.parametrize(
    ("via", "network", "device", "direct"),
    [
        ("NET/Socket/0", "Socket", 0, False),
        ("NET/IBext_v8/7", "IBext_v8", 7, False),
        ("NET/AWS Libfabric/2/GDRDMA", "AWS Libfabric", 2, True),
        ("NET/IB/12(15)/GDRDMA", "IB", 12, True),
        ("NET/IB/0/Shared", "IB", 0, False),
    ],
)
def test_networks_by_any_name(via: str, network: str, device: int, direct: bool) -> None:
    (channel,) = parse(f"h:1:2 [0] NCCL INFO Channel 11/0 : 4[4] -> 12[4] [send] via {via}\n").channels
    assert (channel.network, channel.device, channel.gpu_direct) == (network, device, direct)


@pytest.mark.parametrize(
    "line",
    [
        "h:1:2 [0] NCCL INFO Bootstrap : Using ib0:10.0.0.1<0>",
        "h:1:2 [0] NCCL INFO Bootstrap: Using network IB via NET/IB/0",
        "the application says: Channel 00/0 : 0[0] -> 1[1] via NET/IB/0",
        "",
    ],
)
def test_bootstrap_lines_and_other_peoples_lines_prove_nothing(line: str) -> None:
    assert parse(line).channels == parse(line).networks == parse(line).devices == ()


def test_an_empty_list_of_adapters_and_a_torn_line() -> None:
    assert parse("h:1:2 [0] NCCL INFO NET/IB : Using [RO]; OOB eth0:10.0.4.51<0>").devices == ()
    assert parse("h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] vi").channels == ()


def test_warnings_are_kept_once_and_not_without_end() -> None:
    text = "\n".join(f"h:1:2 [0] NCCL WARN trouble {n % 40}" for n in range(200))
    assert parse(text).warnings == tuple(f"trouble {n}" for n in range(20))


def test_joining_adds_channels_and_ranks_and_keeps_the_largest_world() -> None:
    one, other = read("v2_8"), replace(read("v2_18_fallback"), trees=9)
    both = joined([one, other])
    assert len(both.channels) == 6
    assert (both.ranks, both.world, both.networks, both.trees) == ({0, 4}, 8, ("IB", "Socket"), 9)
    assert joined([]) == Log()
