"""What a check of a timed trial sees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfscale.suite.monitors.series import Series, Window
from tfscale.suite.plan import RankPlan
from tfscale.suite.ranks import RankData
from tfscale.suite.record import Monitored, Quantity
from tfscale.suite.spec import Case
from tfscale.suite.strategies.base import Strategy
from tfscale.suite.summarise import Timing


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything known of one timed trial when it is judged. `ranks` are those that train, in rank order."""

    ranks: Sequence[RankData]
    strategy: Strategy
    timing: Timing
    window: Window
    """The steady window on the clock of the ranks, `perf_counter_ns` of their host."""
    quantities: Mapping[str, Quantity]
    effective: Mapping[str, Any]
    """What was really used, as in the record."""
    monitors: Mapping[str, Monitored] = field(default_factory=dict)
    series: Mapping[str, Series] = field(default_factory=dict)
    """The samples themselves, by monitor; empty where none ran."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    """What the watcher had to say after the results were on disk."""
    neighbours: Sequence[str] = ()
    """Other cases of the run that ran on this machine meanwhile."""

    @property
    def plan(self) -> RankPlan:
        return self.ranks[0].plan

    @property
    def case(self) -> Case:
        return self.plan.case

    @property
    def folder(self) -> Path:
        """The trial's folder."""
        return Path(self.plan.trial_directory)
