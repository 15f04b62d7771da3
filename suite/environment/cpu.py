"""The processor, its memory and how the kernel runs them: from /proc/cpuinfo, /proc/meminfo and /sys."""

from typing import Any

from tfscale.suite.environment.reading import chosen, cpu_list, fields, kibibytes, text, told
from tfscale.suite.sources.base import Answer, Source

_CPU = "sys/devices/system/cpu"
_NODES = "sys/devices/system/node"
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8",
                 "amx_fp16", "sve", "sve2", "bf16", "i8mm", "asimd")  # fmt: skip
"""Flags that decide which of oneDNN's kernels run."""
_BOOT_OPTIONS = ("mitigations", "isolcpus", "nohz_full", "rcu_nocbs", "intel_pstate", "amd_pstate", "intel_idle",
                 "processor", "idle", "iommu", "intel_iommu", "amd_iommu", "hugepages", "default_hugepagesz",
                 "transparent_hugepage", "numa_balancing", "nosmt", "pci", "pcie_aspm", "preempt")  # fmt: skip
"""Options of the kernel's command line that change speed; the rest may name disks and hosts."""


def cpu(files: Source) -> dict[str, Any]:
    """Model, counts, caches, instructions and frequency settings. `usable` counts what this process may run on."""
    content = text(files, "proc/cpuinfo") or ""
    first = fields(content)
    sockets, cores, threads = counts(content)
    allowed = fields(text(files, "proc/self/status") or "").get("Cpus_allowed_list")
    flags = set((first.get("flags") or first.get("Features") or "").split())
    return {
        "model": first.get("model name") or first.get("Model") or first.get("cpu model"),
        "sockets": sockets,
        "cores": cores,
        "threads": threads or None,
        "usable": len(cpu_list(allowed)) if allowed else None,
        "microcode": first.get("microcode"),
        "hypervisor": "hypervisor" in flags,
        "instructions": [name for name in _INSTRUCTIONS if name in flags],
        "caches": caches(files),
        **told(governor=_every(files, "scaling_governor"), driver=files.ask(f"{_CPU}/cpu0/cpufreq/scaling_driver")),
        **told(energy_preference=files.ask(f"{_CPU}/cpu0/cpufreq/energy_performance_preference"), turbo=turbo(files)),
        **told(smt=files.ask(f"{_CPU}/smt/control")),
    }


def counts(cpuinfo: str) -> tuple[int | None, int | None, int]:
    """Sockets, cores and threads in /proc/cpuinfo; sockets and cores are None where it does not tell (Arm, some VMs)."""
    threads, where = 0, set()
    for block in cpuinfo.split("\n\n"):
        cpu = fields(block)
        threads += "processor" in cpu
        if "physical id" in cpu and "core id" in cpu:
            where.add((cpu["physical id"], cpu["core id"]))
    if not where:
        return None, None, threads
    return len({socket for socket, _ in where}), len(where), threads


def caches(files: Source) -> list[dict[str, Any]]:
    """Caches of core 0: level, type, bytes, and the threads that share one."""
    found = []
    for name in files.under(f"{_CPU}/cpu0/cache"):
        level = text(files, f"{_CPU}/cpu0/cache/{name}/level")
        if level is None:
            continue
        shared = text(files, f"{_CPU}/cpu0/cache/{name}/shared_cpu_list")
        size = kibibytes(text(files, f"{_CPU}/cpu0/cache/{name}/size"))
        kind = text(files, f"{_CPU}/cpu0/cache/{name}/type")
        found.append(
            {"level": int(level), "type": kind, "bytes": size, "shared_by": len(cpu_list(shared or "")) or None}
        )
    return found


def turbo(files: Source) -> Answer:
    """Whether the clock may rise above nominal: Intel's `no_turbo`, or the general `boost` (kernel cpufreq docs)."""
    no_turbo = files.ask(f"{_CPU}/intel_pstate/no_turbo")
    if no_turbo.ok:
        return Answer(no_turbo.value == "0")
    boost = files.ask(f"{_CPU}/cpufreq/boost")
    if boost.ok:
        return Answer(boost.value == "1")
    return Answer(state=boost.state, reason="neither intel_pstate/no_turbo nor cpufreq/boost can be read")


def _every(files: Source, name: str) -> Answer:
    """The setting of all cores; `a, b` where they differ."""
    policies = [f"{_CPU}/cpufreq/{policy}" for policy in files.under(f"{_CPU}/cpufreq") if policy.startswith("policy")]
    answers = [files.ask(f"{folder}/{name}") for folder in policies or [f"{_CPU}/cpu0/cpufreq"]]
    values = sorted({str(answer.value) for answer in answers if answer.ok})
    return Answer(", ".join(values)) if values else answers[0]


def memory_bytes(files: Source) -> int | None:
    """Physical memory of the host."""
    return kibibytes(fields(text(files, "proc/meminfo") or "").get("MemTotal"))


def numa(files: Source) -> list[dict[str, Any]]:
    """NUMA nodes: CPUs, memory in bytes, distances to all nodes (10 is itself; ACPI SLIT)."""
    nodes = []
    names = [name for name in files.under(_NODES) if name.startswith("node") and name[4:].isdecimal()]
    for name in sorted(names, key=lambda name: int(name[4:])):
        memory = fields(text(files, f"{_NODES}/{name}/meminfo") or "")
        total = next((value for key, value in memory.items() if key.endswith("MemTotal")), None)
        distance = (text(files, f"{_NODES}/{name}/distance") or "").split()
        cpus = text(files, f"{_NODES}/{name}/cpulist")
        nodes.append(
            {
                "node": int(name[4:]),
                "cpus": cpus,
                "memory_bytes": kibibytes(total),
                "distances": [int(d) for d in distance],
            }
        )
    return nodes


def kernel_settings(files: Source) -> dict[str, Any]:
    """Settings of the kernel that change speed: huge pages, NUMA balancing, swapping, clock source, boot options."""
    huge = files.ask("sys/kernel/mm/transparent_hugepage/enabled")
    boot = text(files, "proc/cmdline")
    return {
        **told(
            transparent_hugepage=Answer(chosen(str(huge.value))) if huge.ok else huge,
            numa_balancing=files.ask("proc/sys/kernel/numa_balancing"),
            swappiness=files.ask("proc/sys/vm/swappiness"),
            clocksource=files.ask("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        ),
        "boot_options": boot_options(boot) if boot is not None else None,
    }


def boot_options(cmdline: str) -> list[str]:
    """The options of the kernel's command line that are known to change speed, `name=value` or `name.key=value`."""
    return [word for word in cmdline.split() if word.partition("=")[0].partition(".")[0] in _BOOT_OPTIONS]
