"""When a rank is late: one deadline for every phase of a launch, and whom to blame when it passes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tfscale.suite.blame import Blame, RankError
from tfscale.suite.events import PHASES, Phase
from tfscale.suite.plan import RankPlan
from tfscale.suite.record import FaultClass
from tfscale.suite.spec import Measure

LEAST_STEP_S = 30.0
MEDIANS = 20


@dataclass
class RankView:
    """What is known of one rank while it runs. Times are seconds of the watcher's clock."""

    plan: RankPlan
    leads: bool
    """Whether the case waits for it to train (a parameter server and its workers only serve)."""
    phases: dict[str, float] = field(default_factory=dict)
    last_s: float = 0.0
    step: int = 0
    step_time_s: float | None = None
    error: RankError | None = None
    exit_code: int | None = None
    exit_s: float | None = None
    compiles_kernels: bool = False
    """Whether TensorFlow said that it compiles its kernels for this GPU, which can take half an hour."""
    preempted: bool = False
    """Whether it left for a warning, before it had a result; what it does after that leads to none."""

    def take(self, event: dict[str, Any], now: float) -> None:
        """Account for one event of the rank."""
        self.last_s = now
        if event["event"] == "phase" and not self.preempted:
            self.phases.setdefault(event["name"], now)
        elif event["event"] == "progress":
            self.step = int(event["step"])
            self.step_time_s = event.get("step_time_s") or self.step_time_s
        elif event["event"] == "preempted":
            self.preempted = not self.finished  # after its result it is no matter
        elif event["event"] == "error" and self.error is None:
            self.error = RankError(event["reason"], event["detail"], event["t_ns"] / 1e9)

    @property
    def position(self) -> int:
        """How far it has come in PHASES; -1 before the first."""
        return max((PHASES.index(name) for name in PHASES if name in self.phases), default=-1)

    def reached(self, phase: Phase) -> bool:
        return self.position >= PHASES.index(phase)

    def reached_at(self, phase: Phase) -> float | None:
        """When it had passed `phase`, be it without saying so (it then told of a later one)."""
        later = [t for name, t in self.phases.items() if PHASES.index(name) >= PHASES.index(phase)]
        return min(later, default=None)

    @property
    def goal(self) -> Phase:
        return "profiled" if self.plan.pass_ == "profiled" else "written"

    @property
    def finished(self) -> bool:
        return self.leads and self.reached(self.goal)


@dataclass(frozen=True)
class Stage:
    """A part of the start-up that all ranks go through together: it begins when the last one ends the stage before."""

    milestone: Phase
    limit_s: float
    classification: FaultClass
    doing: str
    served: bool = True
    """Whether ranks that only serve pass it too."""


def stages(measure: Measure, compiles_kernels: bool = False) -> list[Stage]:
    join_s, first_step_s = measure.join_s, measure.first_step_s
    if compiles_kernels:
        join_s, first_step_s = max(join_s, measure.ptx_s), max(first_step_s, measure.ptx_s)
    return [
        Stage("started", measure.launch_s, "never_started", "running its first line"),
        Stage("imported", measure.launch_s, "join_timeout", "importing TensorFlow"),
        Stage("joined", join_s, "join_timeout", "joining the job", served=False),
        Stage("first_step", first_step_s, "first_step_timeout", "finishing its first step", served=False),
    ]


def overdue(views: Sequence[RankView], launched_s: float, now: float) -> Blame | None:
    """The blame when a deadline has passed at `now`, else None."""
    begun = launched_s
    for stage in stages(views[0].plan.measure, any(view.compiles_kernels for view in views)):
        concerned = [view for view in views if view.leads or stage.served]
        behind = [view for view in concerned if not view.reached(stage.milestone)]
        if behind:
            late = now - begun > stage.limit_s
            return _blame_stage(views, behind, stage) if late else None
        begun = max([begun, *(t for view in concerned if (t := view.reached_at(stage.milestone)) is not None)])
    return _blame_hung(views, now)


def _blame_stage(views: Sequence[RankView], behind: list[RankView], stage: Stage) -> Blame:
    # Joining waits for everybody: the rank that has come least far is the one the others wait for.
    culprit = min(views if stage.milestone == "joined" else behind, key=lambda view: view.position)
    return Blame(stage.classification, culprit.plan.rank, f"not done {stage.doing} within {stage.limit_s:g} s")


def _blame_hung(views: Sequence[RankView], now: float) -> Blame | None:
    training = [view for view in views if view.leads and not view.finished and view.exit_code is None]
    hung = [view for view in training if now - view.last_s > step_limit_s(view)]
    if not hung:
        return None
    # In a synchronous job all stop together: the one with the fewest steps, else the first to fall silent, holds them.
    culprit = min(training, key=lambda view: (view.step, view.last_s))
    silent = now - culprit.last_s
    return Blame("hung", culprit.plan.rank, f"no step for {silent:.1f} s after step {culprit.step}")


def step_limit_s(view: RankView) -> float:
    """Seconds of silence allowed to a rank that has finished its first step."""
    measure = view.plan.measure
    if view.reached("timed"):  # it writes its files, or a trace
        return measure.first_step_s
    if measure.step_s is not None:
        return measure.step_s
    if view.step_time_s is None:  # no estimate yet: nothing is known to be slower than the first step
        begun = view.phases.get("traced", view.phases.get("joined", view.last_s))
        return max(LEAST_STEP_S, 2 * (view.phases.get("first_step", view.last_s) - begun))
    return max(LEAST_STEP_S, MEDIANS * view.step_time_s)
