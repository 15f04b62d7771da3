"""The kernel's own accounts as text: what each file of /proc says, as column keys and values.

Formats: the kernel's Documentation/filesystems/proc.rst and admin-guide/iostats.rst.
"""

from collections.abc import Iterable

from tfscale.suite.procstat import JIFFIES

SECTOR_BYTES = 512
"""/proc/diskstats counts these, whatever the disk's own sectors are."""
KIB = 1024

Found = dict[str, float | None]


def cpu_times(text: str) -> Found:
    """/proc/stat: `cpu<N>/busy`, `cpu_busy`, `cpu_steal` in seconds since boot, `context_switches`.

    Busy is user + nice + system + irq + softirq; a guest's time is in user already. Time stolen by the hypervisor is
    nobody's work here and counts apart. Idle and iowait may run backwards, so busy is not made from them.
    """
    found: Found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name.startswith("cpu"):
            user, nice, system, _idle, _iowait, irq, softirq, steal = [int(field) for field in rest.split()[:8]]
            busy = (user + nice + system + irq + softirq) / JIFFIES
            if name == "cpu":
                found["cpu_busy"], found["cpu_steal"] = busy, steal / JIFFIES
            else:
                found[f"{name}/busy"] = busy
        elif name == "ctxt":
            found["context_switches"] = float(rest)
    return found


def memory(text: str) -> Found:
    """/proc/meminfo: `memory_available`, `memory_total`, `swap_used` in bytes."""
    sizes = _table(text, ("MemTotal:", "MemAvailable:", "SwapTotal:", "SwapFree:"))
    total, free = sizes.get("SwapTotal:"), sizes.get("SwapFree:")
    return {
        "memory_total": _times(sizes.get("MemTotal:"), KIB),
        "memory_available": _times(sizes.get("MemAvailable:"), KIB),
        "swap_used": (total - free) * KIB if total is not None and free is not None else None,
    }


def paging(text: str) -> Found:
    """/proc/vmstat: pages swapped in and out, and page faults that had to wait for a disk, since boot."""
    counts = _table(text, ("pswpin", "pswpout", "pgmajfault"))
    return {
        "swap_in": counts.get("pswpin"),
        "swap_out": counts.get("pswpout"),
        "major_faults": counts.get("pgmajfault"),
    }


def disk_bytes(text: str) -> Found:
    """/proc/diskstats: `<disk>/read_bytes`, `<disk>/write_bytes` of every block device, partitions included."""
    found: Found = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 10:
            found[f"{fields[2]}/read_bytes"] = float(fields[5]) * SECTOR_BYTES
            found[f"{fields[2]}/write_bytes"] = float(fields[9]) * SECTOR_BYTES
    return found


def load(text: str) -> Found:
    """/proc/loadavg: `load1`, the processes that ran or waited to, averaged over a minute."""
    return {"load1": float(text.split()[0])}


def interfaces(text: str) -> Found:
    """/proc/net/dev: bytes, packets, errors and drops of every interface, `<interface>/rx_bytes` and so on."""
    found: Found = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.rpartition(":")
        fields = rest.split()
        for side, start in (("rx", 0), ("tx", 8)):
            for what, value in zip(("bytes", "packets", "errors", "drops"), fields[start : start + 4], strict=False):
                found[f"{name.strip()}/{side}_{what}"] = float(value)
    return found


def tcp(text: str) -> Found:
    """/proc/net/snmp: `tcp_retransmits`, TCP segments that were sent again since boot."""
    lines = [line.split() for line in text.splitlines() if line.startswith("Tcp:")]
    if len(lines) != 2 or "RetransSegs" not in lines[0]:
        return {}
    return {"tcp_retransmits": float(lines[1][lines[0].index("RetransSegs")])}


def _table(text: str, names: Iterable[str]) -> dict[str, float]:
    """`name value` lines of those `names` that are there."""
    found: dict[str, float] = {}
    for name in names:
        start = 0 if text.startswith(f"{name} ") else text.find(f"\n{name} ") + 1
        if start or text.startswith(f"{name} "):
            found[name] = float(text[start + len(name) :].split(None, 1)[0])
    return found


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
