"""Processor, NUMA and kernel settings from trees in the kernel's documented formats."""

from pathlib import Path

import machines
import pytest

from tfscale.suite.environment import cpu
from tfscale.suite.environment.reading import chosen, cpu_list, kibibytes


def _cpuinfo(sockets: int, cores: int, threads: int) -> str:
    blocks = []
    for number in range(sockets * cores * threads):
        core = number % (sockets * cores)
        blocks.append(
            f"processor\t: {number}\nmodel name\t: Example 9000\nphysical id\t: {core // cores}\n"
            f"core id\t\t: {core % cores}\nflags\t\t: fpu avx2 avx512f amx_bf16\n"
        )
    return "\n".join(blocks)


@pytest.mark.parametrize(("sockets", "cores", "threads"), [(1, 1, 1), (1, 8, 2), (2, 56, 2), (4, 3, 1)])
def test_cores_are_counted_once_however_many_threads_they_have(sockets: int, cores: int, threads: int) -> None:
    assert cpu.counts(_cpuinfo(sockets, cores, threads)) == (sockets, sockets * cores, sockets * cores * threads)


def test_arm_does_not_tell_sockets_and_cores() -> None:
    assert cpu.counts("processor\t: 0\nBogoMIPS\t: 50\n\nprocessor\t: 1\nBogoMIPS\t: 50\n") == (None, None, 2)


def test_a_two_socket_server(tmp_path: Path) -> None:
    base = "sys/devices/system/cpu"
    contents = {
        "proc/cpuinfo": _cpuinfo(2, 2, 2),
        "proc/self/status": "Name:\tpython\nCpus_allowed_list:\t0-2,6\n",
        f"{base}/cpufreq/policy0/scaling_governor": "performance\n",
        f"{base}/cpufreq/policy1/scaling_governor": "powersave\n",
        f"{base}/intel_pstate/no_turbo": "1\n",
        f"{base}/cpu0/cache/index3/level": "3\n",
        f"{base}/cpu0/cache/index3/type": "Unified\n",
        f"{base}/cpu0/cache/index3/size": "107520K\n",
        f"{base}/cpu0/cache/index3/shared_cpu_list": "0-1,4-5\n",
    }
    found = cpu.cpu(machines.tree(tmp_path, contents))
    assert (found["sockets"], found["cores"], found["threads"], found["usable"]) == (2, 4, 8, 4)
    assert found["governor"] == "performance, powersave"
    assert found["turbo"] is False
    assert found["instructions"] == ["avx2", "avx512f", "amx_bf16"]
    assert found["caches"] == [{"level": 3, "type": "Unified", "bytes": 107520 * 1024, "shared_by": 4}]
    assert found["driver"] is None
    assert "scaling_driver" in found["driver_reason"]


def test_turbo_of_the_general_driver_and_of_none(tmp_path: Path) -> None:
    assert cpu.turbo(machines.tree(tmp_path, {"sys/devices/system/cpu/cpufreq/boost": "1\n"})).value is True
    assert not cpu.turbo(machines.Fixed()).ok


def test_numa_nodes_in_numerical_order_with_distances(tmp_path: Path) -> None:
    contents = {}
    for node in (0, 2, 10):
        folder = f"sys/devices/system/node/node{node}"
        contents[f"{folder}/cpulist"] = f"{node}-{node + 1}\n"
        contents[f"{folder}/meminfo"] = f"Node {node} MemTotal:       1024 kB\nNode {node} MemFree: 1 kB\n"
        contents[f"{folder}/distance"] = "10 21 21\n"
    nodes = cpu.numa(machines.tree(tmp_path, contents))
    assert [node["node"] for node in nodes] == [0, 2, 10]
    assert nodes[1] == {"node": 2, "cpus": "2-3", "memory_bytes": 1 << 20, "distances": [10, 21, 21]}


def test_only_boot_options_that_change_speed_are_kept() -> None:
    line = "BOOT_IMAGE=/vmlinuz root=UUID=c0ffee ip=10.0.0.7 mitigations=off intel_idle.max_cstate=0 nosmt password=x"
    assert cpu.boot_options(line) == ["mitigations=off", "intel_idle.max_cstate=0", "nosmt"]


@pytest.mark.parametrize(
    ("text", "cpus"), [("", []), ("3", [3]), ("0-3,8", [0, 1, 2, 3, 8]), ("0,2-2", [0, 2]), ("0-1\n", [0, 1])]
)
def test_cpu_lists(text: str, cpus: list[int]) -> None:
    assert cpu_list(text) == cpus


@pytest.mark.parametrize(
    ("text", "size"), [("16 kB", 16384), ("32K", 32768), ("2M", 2 << 20), ("512", 512), ("many", None), (None, None)]
)
def test_sizes(text: str | None, size: int | None) -> None:
    assert kibibytes(text) == size


def test_the_setting_in_brackets() -> None:
    assert chosen("always [madvise] never") == "madvise"
    assert chosen("none") == "none"
    assert chosen(None) is None
