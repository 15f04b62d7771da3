"""Requested against used: every pair of what a case may ask for and what a log may show."""

from pathlib import Path

import pytest

from tfscale.suite.nccl.log import Log, parse
from tfscale.suite.nccl.verdict import verdict
from tfscale.suite.spec import Transport

_VIAS = {
    "sockets": ["NET/Socket/0", "NET/Socket/1"],
    "rdma": ["NET/IB/0", "NET/IB/1"],
    "gdr": ["NET/IB/0/GDRDMA", "NET/IB/1/GDRDMA(PCI)"],
    "half gdr": ["NET/IB/0/GDRDMA", "NET/IB/1"],
    "half sockets": ["NET/IB/0/GDRDMA", "NET/Socket/0"],
    "plugin": ["NET/AWS Libfabric/0", "NET/AWS Libfabric/1"],
    "plugin gdr": ["NET/AWS Libfabric/0/GDRDMA", "NET/AWS Libfabric/1/GDRDMA"],
    "inside": ["P2P/CUMEM/read", "SHM/direct/direct"],
}
_EXPECTED = {
    #                tcp        rdma       gdr        auto
    "sockets": ("VALID", "INVALID", "INVALID", "VALID"),
    "rdma": ("INVALID", "VALID", "INVALID", "VALID"),
    "gdr": ("INVALID", "INVALID", "VALID", "VALID"),
    "half gdr": ("INVALID", "INVALID", "SUSPECT", "VALID"),
    "half sockets": ("INVALID", "INVALID", "INVALID", "VALID"),
    "plugin": ("INVALID", "UNKNOWN", "UNKNOWN", "VALID"),
    "plugin gdr": ("INVALID", "INVALID", "VALID", "VALID"),
    "inside": ("VALID", "VALID", "VALID", "VALID"),
}
_ASKED: tuple[Transport, ...] = ("tcp", "rdma", "gdr", "auto")


def _log(vias: list[str], *extra: str, ranks: int = 2) -> Log:
    lines = [f"Channel {n:02}/0 : 0[0] -> 1[0] [send] via {via}" for n, via in enumerate(vias)]
    lines += [f"comm 0x1 rank {rank} nranks 2 cudaDev 0 busId 0 - Init COMPLETE" for rank in range(ranks)]
    return parse("\n".join(f"h:1:2 [0] NCCL INFO {line}" for line in [*extra, *lines]))


@pytest.mark.parametrize("used", _VIAS)
@pytest.mark.parametrize("asked", _ASKED)
def test_asked_against_used(asked: Transport, used: str) -> None:
    status, sentence = verdict(asked, _log(_VIAS[used]))
    assert status == _EXPECTED[used][_ASKED.index(asked)], sentence
    assert ("no network was needed" in sentence) == (used == "inside")


def test_sockets_beside_idle_adapters_are_suspect() -> None:
    found = "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"
    status, sentence = verdict("auto", _log(_VIAS["sockets"], found))
    assert status == "SUSPECT"
    assert "mlx5_0:1/RoCE" in sentence
    assert verdict("auto", _log(_VIAS["gdr"], found))[0] == "VALID"


def test_the_reason_of_a_fall_back_is_told() -> None:
    text = (Path(__file__).parent / "logs/v2_18_fallback.log").read_text()
    assert verdict("rdma", parse(text)) == (
        "INVALID",
        "rdma was asked for; 1 of 1 channels fell back to sockets (NCCL found no InfiniBand device)",
    )


def test_what_a_log_does_not_show_is_unknown() -> None:
    assert verdict("gdr", Log())[0] == "UNKNOWN"
    chosen = "h:1:2 [0] NCCL INFO Using network IB\nh:1:2 [0] NCCL INFO Bootstrap : Using ib0:10.0.0.1<0>"
    status, sentence = verdict("gdr", parse(chosen))
    assert status == "UNKNOWN"
    assert "no channel" in sentence
    assert verdict("rdma", _log(_VIAS["inside"], ranks=1))[0] == "UNKNOWN"
