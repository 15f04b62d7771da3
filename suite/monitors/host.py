"""The host itself: CPUs, our processes and those of others, memory, paging, disks, energy, limits.

CPU time is counted, not sampled: a counter in seconds, whose growth over a window is exact to a jiffy, and whose rate
is the share of a core (`cpu3/busy`), or the number of cores (`cpu_busy`, `own_cpu`).
RAPL and scaling frequencies were never read on real hardware here: recorded trees stand in for both.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from tfscale.suite.monitors import cgroups, procfiles
from tfscale.suite.monitors.base import Column, Target
from tfscale.suite.monitors.grouped import Group, Grouped, Values, each_file_group, file_group, number
from tfscale.suite.monitors.processes import Accounts, name_foreign
from tfscale.suite.sources.base import Source, Sources

POWERCAP = "sys/class/powercap"
LEAST_LOOK_S = 0.25
"""Looks closer together than this would see little but single jiffies."""


class Host(Grouped):
    """CPU, memory, disk and energy of the machine, and whose processes use it."""

    name: ClassVar[str] = "host"

    def __init__(self, sources: Sources, target: Target) -> None:
        super().__init__(sources, target)
        self._accounts = Accounts(sources.files, target.folder)
        self._foreign: dict[str, Any] | None = None
        self._looked_ns: int | None = None
        self._limits = cgroups.limits(sources.files)
        self._visible = self._accounts.sees_everything()
        self._memory = _found(sources.files, "proc/meminfo", procfiles.memory).get("memory_total")

    def groups(self) -> Sequence[Group]:
        files = self.sources.files
        times = _found(files, "proc/stat", procfiles.cpu_times)
        cores = [key.removesuffix("/busy") for key in times if key.endswith("/busy")]
        return [
            file_group(files, "proc/stat", cpu_columns(cores), procfiles.cpu_times),
            Group([_counter("own_cpu", "s")], lambda: {"own_cpu": self._accounts.tick()}),
            Group([_counter("suite_cpu", "s", slow=True), _gauge("foreign_cpu", "cores", slow=True)], self._look),
            _frequencies(files, cores),
            file_group(
                files,
                "proc/meminfo",
                [_gauge("memory_available", "B", slow=True), _gauge("swap_used", "B", slow=True)],
                procfiles.memory,
            ),
            file_group(
                files,
                "proc/vmstat",
                [
                    _counter("swap_in", "pages", slow=True),
                    _counter("swap_out", "pages", slow=True),
                    _counter("major_faults", "1", slow=True),
                ],
                procfiles.paging,
            ),
            file_group(files, "proc/diskstats", _disk_columns(files), procfiles.disk_bytes),
            file_group(files, "proc/loadavg", [_gauge("load1", "processes", slow=True)], procfiles.load),
            _throttled(files),
            *_rapl(files),
        ]

    def facts(self) -> dict[str, Any]:
        """foreign: who used most CPU between the last two looks; all_processes_visible: False where some are hidden."""
        return {
            "foreign": self._foreign,
            "all_processes_visible": self._visible,
            "own_processes": len(self._accounts.own),
            "memory_total": self._memory,
            "cgroup": self._limits,
        }

    def _look(self) -> Values:
        now = time.perf_counter_ns()
        if self._looked_ns is not None and now - self._looked_ns < LEAST_LOOK_S * 1e9:
            return {"suite_cpu": self._accounts.suite_s, "foreign_cpu": None}
        foreign = self._accounts.look()
        before, self._looked_ns = self._looked_ns, now
        if before is None:
            return {"suite_cpu": self._accounts.suite_s, "foreign_cpu": None}
        seconds = (now - before) / 1e9
        self._foreign = name_foreign(foreign, before, now)
        return {"suite_cpu": self._accounts.suite_s, "foreign_cpu": sum(foreign.values()) / seconds}


def cpu_columns(cores: Sequence[str]) -> list[Column]:
    """Columns of /proc/stat."""
    return [
        *(Column("busy", "s", "counter", core) for core in cores),
        _counter("cpu_busy", "s"),
        _counter("cpu_steal", "s"),
        _counter("context_switches", "1"),
    ]


def _frequencies(files: Source, cores: Sequence[str]) -> Group:
    # /proc/cpuinfo has a frequency too, but on a virtual machine it is a constant that says nothing.
    columns = [
        (Column("frequency", "MHz", "gauge", core, slow=True), f"{core}/cpufreq/scaling_cur_freq", 1e-3)
        for core in cores
    ]
    return each_file_group(files, "sys/devices/system/cpu", columns)


def _disk_columns(files: Source) -> list[Column]:
    """Whole disks with hardware behind them; partitions and mapped devices would count the same bytes again."""
    disks = [name for name in files.under("sys/block") if files.ask(f"sys/block/{name}/device").ok]
    return [Column(name, "B", "counter", disk) for disk in disks for name in ("read_bytes", "write_bytes")]


def _throttled(files: Source) -> Group:
    groups = cgroups.of_this_process(files, "cpu")
    column = _counter("cgroup_throttled", "s", slow=True)
    if cgroups.throttled_s(files, groups) is None:
        reason = "no control group of this process counts the time for which its CPU quota held it back"
        column = replace(column, state="absent", reason=reason)
    return Group([column], lambda: {column.key: cgroups.throttled_s(files, groups)})


def _rapl(files: Source) -> list[Group]:
    """Energy counters of packages and of what is in them (which the package includes, DRAM excepted)."""
    zones = [zone for zone in files.under(POWERCAP) if zone.startswith("intel-rapl:")]
    groups = []
    for zone in zones:
        package = ":".join(zone.split(":")[:2])
        names = [str(files.ask(f"{POWERCAP}/{part}/name").value or part) for part in dict.fromkeys((package, zone))]
        most = number(str(files.ask(f"{POWERCAP}/{zone}/max_energy_range_uj").value))
        column = Column("energy", "J", "counter", "/".join(names), wraps_at=(most or 2**32) * 1e-6)
        groups.append(each_file_group(files, f"{POWERCAP}/{zone}", [(column, "energy_uj", 1e-6)]))
    if not groups:
        reason = f"/{POWERCAP} has no intel-rapl zones: no RAPL on this processor, or not in this virtual machine"
        groups.append(Group([replace(_counter("energy", "J"), state="absent", reason=reason)], dict))
    return groups


def _counter(name: str, unit: str, *, slow: bool = False) -> Column:
    return Column(name, unit, "counter", slow=slow)


def _gauge(name: str, unit: str, *, slow: bool = False) -> Column:
    return Column(name, unit, "gauge", slow=slow)


def _found(files: Source, key: str, parse: Callable[[str], Values]) -> Values:
    answer = files.ask(key)
    return parse(answer.value) if answer.ok else {}
