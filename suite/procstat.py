"""One line of /proc/PID/stat. Format: the kernel's Documentation/filesystems/proc.rst."""

import os
from dataclasses import dataclass

JIFFIES = os.sysconf("SC_CLK_TCK")
"""A second in the units of CPU time of /proc: 100 on every architecture of today."""
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of the kernel's include/linux/sched.h, among the flags."""


@dataclass(frozen=True, slots=True)
class Process:
    """What is read of a process."""

    pid: int
    name: str
    state: str
    """R, S, D, T, Z, ..."""
    parent: int
    session: int
    started: int
    """Jiffies after boot: with the process id it tells a process from a later one that got its number."""
    cpu_s: float
    kernel: bool


def parse(text: str) -> Process:
    """A process from its line; the name may hold spaces and brackets. Raises ValueError, IndexError."""
    opening, closing = text.index("("), text.rindex(")")
    fields = text[closing + 2 :].split()
    return Process(
        pid=int(text[:opening]),
        name=text[opening + 1 : closing],
        state=fields[0],
        parent=int(fields[1]),
        session=int(fields[3]),
        started=int(fields[19]),
        cpu_s=(int(fields[11]) + int(fields[12])) / JIFFIES,
        kernel=bool(int(fields[6]) & _KERNEL_THREAD),
    )
