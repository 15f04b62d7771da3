"""Every edge to hardware is a Source: asked by key, it answers with a value, or with the reason why there is none.

A file tree (/sys, /proc), a command's output and NVML are sources. What reads them (monitors, the environment, doctor,
the fabric checks) is handed `Sources`, so that a recorded bundle of another machine takes the machine's place.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

State = Literal["ok", "unsupported", "no_permission", "absent", "error"]
"""absent: the thing itself is not there (no driver, no such file); unsupported: it is, but cannot tell this."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. `value` is plain JSON data, None unless the state is ok; `reason` says why there is none."""

    value: Any = None
    state: State = "ok"
    reason: str | None = None

    @property
    def ok(self) -> bool:
        return self.state == "ok"


class Source(ABC):
    """One edge. Asking never raises: what goes wrong is the answer's state."""

    name: ClassVar[str]

    @abstractmethod
    def ask(self, key: str) -> Answer:
        """The answer to `key`: a path, a command line, a device and field, by source."""

    @abstractmethod
    def under(self, key: str) -> list[str]:
        """The names directly below `key`, sorted; [] where there is nothing."""


@dataclass(frozen=True)
class Sources:
    """All edges of one machine, real or recorded."""

    files: Source
    """Keys are paths without the leading slash: `sys/class/net/eth0/mtu` -> its text, stripped. A folder answers
    with where it really is (links resolved), which is how the kernel tells the bus address of a device."""
    commands: Source
    """Keys are command lines, `nvidia-smi topo -m` -> {rc, stdout, stderr}; no shell is involved."""
    nvml: Source
    """Keys are `driver`, `count`, ... or `<index>/<field>`; `under("")` lists the device indices."""
