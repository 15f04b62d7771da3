"""The kernel's texts, in the formats of its proc.rst and iostats.rst, against values worked out by hand."""

import os

import pytest

from tfscale.suite.monitors import procfiles

HZ = os.sysconf("SC_CLK_TCK")
STAT = """\
cpu  1000 200 300 90000 50 6 7 80 40 0
cpu0 600 100 200 45000 20 4 3 50 40 0
cpu1 400 100 100 45000 30 2 4 30 0 0
intr 123 0 0
ctxt 777
btime 1700000000
"""
MEMINFO = """\
MemTotal:       16384 kB
MemFree:         1000 kB
MemAvailable:   8192 kB
SwapCached:        99 kB
SwapTotal:       2048 kB
SwapFree:         512 kB
"""
NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 100 2 0 0 0 0 0 0 100 2 0 0 0 0 0 0
eth0.7:18446744073709551615 11 12 13 14 15 16 17 20 21 22 23 24 25 26 27
"""
SNMP = """\
Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm RtoMin OutSegs RetransSegs InErrs
Tcp: 1 200 5000 42 0
"""


def test_cpu_times_leave_out_idle_iowait_and_steal() -> None:
    found = procfiles.cpu_times(STAT)
    assert found["cpu_busy"] == (1000 + 200 + 300 + 6 + 7) / HZ
    assert found["cpu0/busy"] == (600 + 100 + 200 + 4 + 3) / HZ
    assert found["cpu1/busy"] == (400 + 100 + 100 + 2 + 4) / HZ
    assert found["cpu_steal"] == 80 / HZ
    assert found["context_switches"] == 777


def test_memory_in_bytes_and_swap_as_what_is_gone() -> None:
    assert procfiles.memory(MEMINFO) == {
        "memory_total": 16384 * 1024,
        "memory_available": 8192 * 1024,
        "swap_used": (2048 - 512) * 1024,
    }


def test_what_a_kernel_does_not_tell_is_none() -> None:
    assert procfiles.memory("MemTotal: 4 kB") == {"memory_total": 4096, "memory_available": None, "swap_used": None}
    assert procfiles.paging("nr_free_pages 3") == {"swap_in": None, "swap_out": None, "major_faults": None}
    assert procfiles.tcp("Ip: a\nIp: 1") == {}


def test_paging() -> None:
    text = "nr_free_pages 3\npswpin 5\npswpout 6\nxpgmajfault 9\npgmajfault 7\npgmajfault_x 8\n"
    assert procfiles.paging(text) == {"swap_in": 5, "swap_out": 6, "major_faults": 7}


def test_disks_count_sectors_of_512_bytes() -> None:
    text = " 254       0 vda 44 4 1000 27 22 5 300 28 0 29 30\n 254       1 vda1 1 1 8 1 1 1 16 1 0 1 1\n"
    assert procfiles.disk_bytes(text) == {
        "vda/read_bytes": 512000,
        "vda/write_bytes": 153600,
        "vda1/read_bytes": 4096,
        "vda1/write_bytes": 8192,
    }


def test_interfaces_even_where_the_number_touches_the_name() -> None:
    found = procfiles.interfaces(NET_DEV)
    assert found["lo/rx_bytes"] == found["lo/tx_bytes"] == 100
    assert found["eth0.7/rx_bytes"] == float(2**64 - 1)
    assert [found[f"eth0.7/{side}_{what}"] for side in ("rx", "tx") for what in ("packets", "errors", "drops")] == [
        11, 12, 13, 21, 22, 23,
    ]  # fmt: skip


def test_tcp_finds_its_column_by_name() -> None:
    assert procfiles.tcp(SNMP) == {"tcp_retransmits": 42}


@pytest.mark.parametrize(("text", "load"), [("1.50 2.83 1.85 3/96 3270", 1.5), ("0.00 0 0 1/1 1", 0.0)])
def test_load(text: str, load: float) -> None:
    assert procfiles.load(text) == {"load1": load}
