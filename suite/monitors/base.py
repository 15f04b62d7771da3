"""What is sampled beside a run: a monitor names its columns once, then gives their values again and again.

Monitors run in one sampler process a host, never in a training process. They only read Sources.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from tfscale.suite.sources.base import Sources, State


@dataclass(frozen=True, slots=True)
class Column:
    """One sampled series. A counter only grows (or is reset), so its growth counts; a gauge's mean and maximum do."""

    name: str
    """`power`, `tx_bytes`, ...: the field, the same for every device."""
    unit: str
    kind: Literal["gauge", "counter"]
    device: str | None = None
    """`gpu0`, `eth0`, `mlx5_0/1`, `cpu3`; None for the host as a whole."""
    state: State = "ok"
    """Found once, on opening; a column that is not ok is never sampled and has no values, and `reason` says why."""
    reason: str | None = None
    slow: bool = False
    """Sampled once a second instead of at every tick: what costs much, or changes slowly."""
    wraps_at: float = 2.0**32
    """Where a counter that never reached it starts again from 0: 2^32 of what a 32-bit one counts, in `unit`."""

    @property
    def key(self) -> str:
        """`gpu0/power`, or `load1` for the host."""
        return f"{self.device}/{self.name}" if self.device else self.name


@dataclass(frozen=True)
class Target:
    """Whose run is watched."""

    folder: Path
    """The trial's folder; `rank*/launch.json` in it tell the processes of its ranks, as soon as they have started."""
    visible: Mapping[str, str]
    """Environment of the ranks where it tells devices apart: CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER, ...."""
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """`host0`, `host1`, ... -> network namespace of that host of the job; empty where ranks are in the sampler's own."""


class Monitor(ABC):
    """One kind of counters. Entry point group `tfscale.monitors`; made with (sources, target) in the sampler."""

    name: ClassVar[str]

    def __init__(self, sources: Sources, target: Target) -> None:
        self.sources = sources
        self.target = target

    @abstractmethod
    def columns(self) -> Sequence[Column]:
        """All columns, those that cannot be had included; asked once, before the first sample."""

    @abstractmethod
    def sample(self, columns: Sequence[Column]) -> list[float | None]:
        """The values of `columns` (some of the ok ones, always in the same order) now; None where one failed."""

    def facts(self) -> dict[str, Any]:
        """Plain JSON data that is no series (processes on a device, the name of a card), asked once a second.

        Empty where there is none.
        """
        return {}

    def close(self) -> None:
        """Let go of what was opened."""
