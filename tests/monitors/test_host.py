"""The host's counters: recorded trees for what this machine lacks, /proc and psutil and a busy loop for what it has."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import tree

from tfscale.suite.monitors import cgroups, host, series
from tfscale.suite.monitors.base import Column
from tfscale.suite.monitors.host import Host
from tfscale.suite.monitors.sampling import Sampler, Sampling
from tfscale.suite.monitors.summary import summarise
from tfscale.suite.record import Monitored
from tfscale.suite.sources.base import Sources
from tfscale.suite.sources.here import here

BASE = """
proc/self -> 7
proc/7/stat = 7 (python) S 6 7 7 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 5 0 0
proc/stat = cpu  100 0 0 900 0 0 0 5 0 0\\ncpu0 60 0 0 0 0 0 0 5 0 0\\ncpu1 40 0 0 0 0 0 0 0 0 0\\nctxt 9
proc/self/cgroup = 0::/
"""
RAPL = """
[sys/class/powercap]
intel-rapl/enabled = 1
intel-rapl:0/name = package-0
intel-rapl:0/energy_uj = 5000000
intel-rapl:0/max_energy_range_uj = 262143328850
intel-rapl:0:1/name = dram
intel-rapl:0:1/energy_uj = 250000
intel-rapl:0:1/max_energy_range_uj = 65712999613
intel-rapl:1/name = package-1
intel-rapl:1/max_energy_range_uj = 262143328850
intel-rapl-mmio:0/name = package-0
intel-rapl-mmio:0/energy_uj = 1
"""
DISKS = """
proc/diskstats = 8 0 sda 1 0 10 0 1 0 20 0 0 0 0\\n 8 1 sda1 1 0 10 0 1 0 20 0 0 0 0\\n 7 0 loop0 1 0 4 0 1 0 4 0 0 0 0
sys/block/sda/device -> ../../devices/disk
sys/devices/disk
sys/block/loop0/size = 1
"""
FREQUENCIES = """
sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq = 2400000
sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq = 800123
"""


def read(sources: Sources, folder: Path) -> tuple[dict[str, float | None], dict[str, Column]]:
    monitor = Host(sources, tree.target(folder))
    columns = {column.key: column for column in monitor.columns()}
    good = [column for column in columns.values() if column.state == "ok"]
    return dict(zip((column.key for column in good), monitor.sample(good), strict=True)), columns


def test_energy_of_packages_and_what_is_in_them(tmp_path: Path) -> None:
    values, columns = read(tree.lay(BASE + RAPL, tmp_path), tmp_path)
    assert values["package-0/energy"] == 5.0
    assert values["package-0/dram/energy"] == 0.25
    assert columns["package-0/energy"].wraps_at == pytest.approx(262143.328850)
    assert columns["package-1/energy"].state == "absent"  # a zone without the counter
    assert sum(column.name == "energy" for column in columns.values()) == 3  # mmio shows package 0 again


def test_energy_that_may_not_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = tree.lay(BASE + RAPL, tmp_path)
    path = tmp_path / "sys/class/powercap/intel-rapl:0/energy_uj"
    opened = os.open

    def denied(name: str, *rest: int) -> int:  # as for a user other than root since Linux 5.10; root is never denied
        if name == str(path):
            raise PermissionError(13, "Permission denied")
        return opened(name, *rest)

    monkeypatch.setattr(os, "open", denied)
    values, columns = read(sources, tmp_path)
    assert columns["package-0/energy"].state == "no_permission" and "package-0/energy" not in values
    assert columns["package-0/dram/energy"].state == "ok"


def test_disks_with_hardware_behind_them_and_frequencies(tmp_path: Path) -> None:
    values, columns = read(tree.lay(BASE + DISKS + FREQUENCIES, tmp_path), tmp_path)
    assert (values["sda/read_bytes"], values["sda/write_bytes"]) == (5120, 10240)
    assert not any(column.device in ("sda1", "loop0") for column in columns.values())
    assert (values["cpu0/frequency"], values["cpu1/frequency"]) == (2400, 800.123)


def test_what_a_machine_lacks_has_a_state_and_a_reason(tmp_path: Path) -> None:
    values, columns = read(tree.lay(BASE, tmp_path), tmp_path)
    lacking = {key: (c.state, c.reason) for key, c in columns.items() if c.state != "ok"}
    assert {key: state for key, (state, _) in lacking.items()} == dict.fromkeys(
        ["cpu0/frequency", "cpu1/frequency", "memory_available", "swap_used", "swap_in", "swap_out", "major_faults",
         "load1", "cgroup_throttled", "energy"],
        "absent",
    )  # fmt: skip
    assert all(reason for _, reason in lacking.values())
    assert set(values) == {"cpu0/busy", "cpu1/busy", "cpu_busy", "cpu_steal", "context_switches", "own_cpu",
                           "suite_cpu", "foreign_cpu"}  # fmt: skip


V2 = """
proc/self/cgroup = 0::/slice/job
[sys/fs/cgroup]
cgroup.controllers = cpu memory
slice/cpu.max = 150000 100000
slice/cpu.stat = usage_usec 9\\nnr_throttled 3\\nthrottled_usec 2500000
slice/memory.max = 2147483648
slice/job/cpu.max = max 100000
slice/job/cpu.stat = usage_usec 9\\nthrottled_usec 0
slice/job/memory.max = max
"""
V2_CONTAINER = """
proc/self/cgroup = 0::/../../kubepods/pod1
[sys/fs/cgroup]
cpu.max = 400000 100000
cpu.stat = throttled_usec 1000
memory.max = 1073741824
"""
V1 = """
proc/self/cgroup = 4:memory:/docker/abc\\n3:cpu,cpuacct:/docker/abc\\n0::/
[sys/fs/cgroup]
cpu,cpuacct/cpu.cfs_quota_us = 50000
cpu,cpuacct/cpu.cfs_period_us = 100000
cpu,cpuacct/cpu.stat = nr_periods 1\\nnr_throttled 1\\nthrottled_time 3000000000
memory/memory.limit_in_bytes = 536870912
"""
V1_UNLIMITED = """
proc/self/cgroup = 4:memory:/\\n3:cpu:/
[sys/fs/cgroup]
cpu/cpu.cfs_quota_us = -1
cpu/cpu.cfs_period_us = 100000
memory/memory.limit_in_bytes = 9223372036854771712
"""


@pytest.mark.parametrize(
    ("text", "version", "quota", "memory", "throttled"),
    [
        (V2, 2, 1.5, 2**31, 2.5),  # a limit above is a limit too
        (V2_CONTAINER, 2, 4.0, 2**30, 0.001),  # the path is the host's, the tree the container's
        (V1, 1, 0.5, 2**29, 3.0),
        (V1_UNLIMITED, 1, None, None, None),
        ("proc/self/cgroup = 0::/", None, None, None, None),
        ("", None, None, None, None),
    ],
)
def test_control_groups(
    text: str, version: int | None, quota: float | None, memory: float | None, throttled: float | None, tmp_path: Path
) -> None:
    files = tree.lay(text, tmp_path).files
    assert cgroups.limits(files) == {"version": version, "cpu_quota": quota, "memory_limit": memory}
    found = cgroups.throttled_s(files, cgroups.of_this_process(files, "cpu"))
    assert found == (None if throttled is None else pytest.approx(throttled))


def test_facts_say_where_processes_are_hidden(tmp_path: Path) -> None:
    assert Host(tree.lay(BASE, tmp_path), tree.target(tmp_path)).facts()["all_processes_visible"] is False
    tree.lay("proc/2/comm = kthreadd", tmp_path)
    assert Host(tree.lay("", tmp_path), tree.target(tmp_path)).facts()["all_processes_visible"] is True


def busy(core: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["bash", "-c", f"taskset -pc {core} $$ > /dev/null; while :; do :; done"])


@pytest.fixture
def loop() -> Iterator["subprocess.Popen[bytes]"]:
    """A busy loop on the last core that we may use."""
    process = busy(max(os.sched_getaffinity(0)))
    yield process
    process.kill()
    process.wait()


def by_psutil(process: psutil.Process, core: int) -> dict[str, float]:
    """psutil's account of what the monitor tells, in its units."""
    times, own = psutil.cpu_times(percpu=True)[core], process.cpu_times()
    whole, disk = psutil.cpu_times(), psutil.disk_io_counters(nowrap=False)
    return {
        "core": times.user + times.nice + times.system + times.irq + times.softirq,
        "core_steal": times.steal,
        "cpu_busy": whole.user + whole.nice + whole.system + whole.irq + whole.softirq,
        "cpu_steal": whole.steal,
        "context_switches": psutil.cpu_stats().ctx_switches,
        "own_cpu": own.user + own.system,
        "disk": float(disk.write_bytes) if disk else 0.0,
    }


@pytest.mark.system
def test_counters_lie_between_two_looks_of_psutil(tmp_path: Path, loop: "subprocess.Popen[bytes]") -> None:
    core = max(os.sched_getaffinity(0))
    process = psutil.Process(loop.pid)
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0/launch.json").write_text(json.dumps({"pid": loop.pid}))
    monitor = Host(here(), tree.target(tmp_path))
    columns = [column for column in monitor.columns() if column.state == "ok"]
    names = [column.key for column in columns]

    def look() -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
        before = by_psutil(process, core)
        found = dict(zip(names, monitor.sample(columns), strict=True))
        ours = {key: float(found[key] or 0.0) for key in ("cpu_busy", "cpu_steal", "context_switches", "own_cpu")}
        disks = {c.device for c in columns if c.name == "write_bytes"}
        ours["disk"] = sum(float(found[f"{disk}/write_bytes"] or 0) for disk in disks)
        return before, {**ours, "core": float(found[f"cpu{core}/busy"] or 0.0)}, by_psutil(process, core)

    look()
    first, second = look(), (time.sleep(1.0), look())[1]
    for key in first[1]:
        least, most = second[0][key] - first[2][key], second[2][key] - first[0][key]
        grown = second[1][key] - first[1][key]
        assert least - 1e-6 <= grown <= most + 1e-6, key
    # The busy loop's core is busy, or the hypervisor had it; jiffies are hundredths of a second.
    spent = second[2]["core"] + second[2]["core_steal"] - first[0]["core"] - first[0]["core_steal"]
    assert spent >= 0.98 * 1.0
    available = dict(zip(names, monitor.sample(columns), strict=True))["memory_available"]
    assert available == pytest.approx(psutil.virtual_memory().available, rel=0.02)


def sampled(folder: Path, cpu_s: Callable[[], float]) -> tuple[Monitored, float]:
    """What the host's monitor sees in a second, and how fast `cpu_s` grew in the same second."""
    folder.mkdir()
    sampling = Sampling(["host"], folder, slow_s=0.3)
    with Sampler(sampling) as started:
        time.sleep(0.8)
        began, before = time.perf_counter_ns(), cpu_s()
        time.sleep(1.0)
        ended, after = time.perf_counter_ns(), cpu_s()
    assert started.reason is None
    found = summarise(series.read(sampling.output), "host", series.Window(began, ended))
    return found, (after - before) / (ended - began) * 1e9


@pytest.mark.system
def test_a_foreign_busy_loop_is_named_and_alone_there_is_none(tmp_path: Path, loop: "subprocess.Popen[bytes]") -> None:
    process = psutil.Process(loop.pid)
    found, share = sampled(tmp_path / "with", lambda: sum(process.cpu_times()[:2]))
    named = {entry["pid"]: entry for entry in found.facts["foreign"]}
    assert named[loop.pid]["name"] == "bash"
    # The share is 1 where nobody else wants the core. Looks reach over the ends of the second.
    assert named[loop.pid]["cores"] == pytest.approx(share, abs=0.2)
    total = found.summary[""]["foreign_cpu_mean"]
    assert total.unit == "cores" and total.value is not None and total.value >= share - 0.2
    loop.kill()
    loop.wait()
    alone, _ = sampled(tmp_path / "alone", lambda: 0.0)
    assert loop.pid not in {entry["pid"] for entry in alone.facts["foreign"]}


def test_a_look_at_all_processes_is_cheap(tmp_path: Path) -> None:
    """With 300 processes on a tree in memory: below 10 ms, the best of five, on whatever machine this is."""
    stat = "proc/{0}/stat = {0} (python) S 1 {0} {0} 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 5 0 0"
    text = "\n".join(stat.format(pid) for pid in range(100, 400))
    monitor = Host(tree.lay(BASE + text, tmp_path), tree.target(tmp_path))
    took = []
    for _ in range(5):
        before = time.thread_time()
        monitor._accounts.look()
        took.append(time.thread_time() - before)
    assert len(monitor._accounts._seen) == 301
    assert min(took) < 0.010


def test_the_columns_of_this_very_machine(tmp_path: Path) -> None:
    values, columns = read(here(), tmp_path)
    for core in os.sched_getaffinity(0):
        assert f"cpu{core}/busy" in values
    assert all(column.reason for column in columns.values() if column.state != "ok")
    assert host.LEAST_LOOK_S > 0 and values["foreign_cpu"] is None  # there was no look before
