"""One launch: plan, start, watch, end; again with new ports where one was taken."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tfscale.suite import deciding, registry
from tfscale.suite.blame import Blame
from tfscale.suite.launchers.base import Launcher
from tfscale.suite.launchers.environment import ORDER, VISIBLE, base_environment
from tfscale.suite.launchers.errors import LaunchError, PortTakenError
from tfscale.suite.monitors.sampling import Sampler, Sampling
from tfscale.suite.plan import Lengths, Pass, RankPlan, Stretch
from tfscale.suite.planner import Folders, Place, plan_launch
from tfscale.suite.runfolder import empty
from tfscale.suite.spec import Case, Measure, Profile
from tfscale.suite.strategies.base import Strategy
from tfscale.suite.watch import OnEvent, Outcome, Preempted, Stopped, watch

PORT_RETRIES = 3
END_GRACE_S = 2.0


@dataclass(frozen=True)
class Bench:
    """What launches of a run share."""

    launcher: Launcher
    place: Place
    measure: Measure
    profile: Profile | None = None
    monitors: Sequence[str] = ()
    """What is sampled beside a timed pass."""
    data_of: Callable[[Case], Path | None] = lambda case: None
    """TFRecord folder of a case with files input; may make it."""
    strategy_of: Callable[[Case], Strategy] = lambda case: load_strategy(case.strategy)
    lengths: Lengths | None = None
    """How long a pass `losses` trains."""
    stretch: Stretch | None = None
    """What a pass `recovery` trains."""
    save_s: float = END_GRACE_S
    """How long ranks that are told to stop may take to save what they have."""


@dataclass(frozen=True)
class Launched:
    """A launch that has ended, with none of its processes left."""

    plans: list[RankPlan]
    outcome: Outcome
    port_retries: int
    unsampled: str | None = None
    """Why there are no counters, or none of the end."""
    neighbours: tuple[str, ...] = ()
    """Other cases of the run that ran on this machine meanwhile."""


def load_strategy(name: str) -> Strategy:
    strategy: Strategy = registry.load("strategies", name)()
    return strategy


def launch(
    bench: Bench,
    case: Case,
    trial: int,
    folder: Path,
    pass_: Pass,
    on_event: OnEvent,
    stop: Callable[[], bool],
    asked: Case | None = None,
) -> Launched:
    """Run `case` once in the emptied `folder`. Raises watch.Stopped when `stop()` turns true, watch.Preempted when a rank
    was warned that it is about to be ended; nothing runs on then.

    `asked` is the case of the suite where `case` has numbers that were decided since.
    """
    retries = 0
    while True:
        empty(folder)
        plans, failed = _plan(bench, case, trial, folder, pass_, asked or case)
        if failed is not None:
            return Launched(plans, failed, retries)
        unwatched = bench.launcher.watches(plans) if bench.monitors else None
        with _sampled(bench, folder, plans, unwatched) as sampler:
            outcome = _once(bench, plans, on_event, stop)
        if outcome.preempted:
            raise Preempted
        taken = outcome.failure is not None and outcome.failure.classification == "port_in_use"
        if not taken or retries == PORT_RETRIES:
            return Launched(plans, outcome, retries, sampler.reason if sampler else unwatched)
        retries += 1
        on_event(0, {"event": "port_retry", "attempt": retries})


def _plan(
    bench: Bench, case: Case, trial: int, folder: Path, pass_: Pass, asked: Case
) -> tuple[list[RankPlan], Outcome | None]:
    """The plans of all ranks, or none and why there cannot be any."""
    try:
        strategy, folders = bench.strategy_of(case), Folders(folder, bench.data_of(case))
        plans = plan_launch(
            case,
            trial,
            strategy,
            bench.place,
            folders,
            measure=bench.measure,
            profile=bench.profile,
            pass_=pass_,
            hosts=bench.launcher.hosts(case),
            case_id=asked.id,
            batch_growth=deciding.growth(asked, case),
            lengths=bench.lengths,
            stretch=bench.stretch,
        )
    except LaunchError as error:
        return [], Outcome(Blame("never_started", None, str(error)))
    except ValueError as error:  # a plan that cannot be: too few cores, an unknown strategy, data that cannot be made
        return [], Outcome(Blame("error", None, str(error)))
    return plans, None


@contextmanager
def _sampled(bench: Bench, folder: Path, plans: Sequence[RankPlan], unwatched: str | None) -> Iterator[Sampler | None]:
    """The sampler of counters beside a timed pass; a profiled pass is disturbed enough, and so are ranks elsewhere."""
    if plans[0].pass_ != "timed" or not bench.monitors or unwatched is not None:
        yield None
        return
    shown = [plan.environment.get(VISIBLE, "-1") for plan in plans]
    cards = dict.fromkeys(name for names in shown for name in names.split(",") if name not in ("", "-1"))
    visible = {VISIBLE: ",".join(cards) or "-1", ORDER: base_environment(os.environ)[ORDER]}
    spaces = {f"host{plan.host}": plan.network_namespace for plan in plans if plan.network_namespace is not None}
    with Sampler(Sampling(bench.monitors, folder, visible, spaces)) as sampler:
        yield sampler


def _once(bench: Bench, plans: list[RankPlan], on_event: OnEvent, stop: Callable[[], bool]) -> Outcome:
    try:
        job = bench.launcher.start(plans)
    except PortTakenError as error:
        return Outcome(Blame("port_in_use", None, str(error)))
    except LaunchError as error:
        return Outcome(Blame("never_started", None, str(error)))
    except ValueError as error:  # what a launcher cannot start
        return Outcome(Blame("error", None, str(error)))
    grace_s = END_GRACE_S
    try:
        return watch(job, plans, on_event=on_event, stop=stop)
    except Stopped:
        grace_s = bench.save_s
        raise
    finally:
        job.end(grace_s)
