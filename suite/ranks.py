"""What the ranks of a launch left behind, read back together."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.events import EventReader
from tfscale.suite.hostclocks import HostClocks, read_clocks
from tfscale.suite.launchers.local import LAUNCH
from tfscale.suite.plan import RankPlan
from tfscale.suite.rankfiles import BLOCKS, RankResult, read_arrays, read_result
from tfscale.suite.timing.series import BlockSeries


class MergeError(ValueError):
    """Ranks whose results are missing, broken, or do not fit together; the message names the rank."""


@dataclass(frozen=True, eq=False)
class RankData:
    """One rank's results. `launch` is what its launcher noted, {} where it notes nothing."""

    plan: RankPlan
    result: RankResult
    series: BlockSeries
    launch: dict[str, Any]
    started_ns: int | None
    """When its first line ran, on the clock of `launch["launched_ns"]`."""
    clocks: HostClocks | None = None
    """Its host's clocks against the harness's; None where nobody compared them."""


def leading(plans: Sequence[RankPlan]) -> list[RankPlan]:
    """The ranks that train and leave results. Where there is a coordinator, all others only serve it."""
    coordinators = [plan for plan in plans if plan.role == "coordinator"]
    return coordinators or list(plans)


def collect(plans: Sequence[RankPlan]) -> list[RankData]:
    """Results of the leading ranks, in rank order. Raises MergeError."""
    return [_read(plan) for plan in leading(plans)]


def _read(plan: RankPlan) -> RankData:
    folder = Path(plan.directory)
    try:
        result = read_result(folder)
        series = BlockSeries.from_arrays(read_arrays(folder / BLOCKS))
        launch = launch_told(folder)
        clocks = read_clocks(folder)
    except (OSError, ValueError, KeyError) as error:
        raise MergeError(f"rank {plan.rank}: {error}") from error
    if result.rank != plan.rank:
        raise MergeError(f"rank {plan.rank} left the result of rank {result.rank}")
    events = EventReader(folder).read()
    started = next((event["t_ns"] for event in events if event.get("name") == "started"), None)
    return RankData(plan, result, series, launch, started, clocks)


def clock_offsets(ranks: Sequence[RankData]) -> list[float] | None:
    """How far each rank's clock is ahead of one of them, in nanoseconds; None where nobody compared those of several hosts.

    Ranks of one host, and of hosts that the local launchers play, share a clock.
    """
    if all(rank.clocks is None for rank in ranks):
        return [0.0] * len(ranks)
    found = [rank.clocks.monotonic.offset_ns for rank in ranks if rank.clocks is not None]
    return found if len(found) == len(ranks) else None


def launch_told(folder: Path) -> dict[str, Any]:
    """What the launcher noted of the start of the rank in `folder`; {} where it noted nothing. Raises OSError, ValueError."""
    told: dict[str, Any] = json.loads((folder / LAUNCH).read_bytes()) if (folder / LAUNCH).exists() else {}
    return told


def block_arrays(ranks: Sequence[RankData]) -> dict[str, NDArray[Any]]:
    """The series of all ranks as named arrays, `rank<r>/<field>`, for the trial's blocks.npz."""
    return {
        f"rank{rank.plan.rank}/{name}": np.asarray(values)
        for rank in ranks
        for name, values in rank.series.arrays().items()
    }
