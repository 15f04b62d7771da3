"""The scenario `recovery`: which cases it can take, and when which rank is to fail. Pure, but for the registry."""

import random
from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from tfscale.suite import registry
from tfscale.suite.launchers.base import Launcher
from tfscale.suite.plan import Fault
from tfscale.suite.record import Pruned
from tfscale.suite.spec import Case, Recovery

LEFT = 2
"""Steps at least between the one after which a rank fails and the last: training must not be over before it does."""


@runtime_checkable
class CutsLinks(Protocol):
    """A launcher that can cut the link of a host of the running case."""

    def cut(self, case: Case, host: int) -> None:
        """From now on nothing passes the link of the host with that number in the job."""

    def mend(self) -> None:
        """Put the link right that was cut."""


def sorted_out(cases: Iterable[Case], wanted: Recovery, launcher: type[Launcher]) -> tuple[list[Case], list[Pruned]]:
    """The cases that the scenario takes, and the others with their reasons."""
    taken, refused = [], []
    for case in cases:
        reason = refusal(case, wanted, launcher)
        if reason is None:
            taken.append(case)
        else:
            refused.append(Pruned(case=case.axes(), reason=f"recovery: {reason}"))
    return taken, refused


def refusal(case: Case, wanted: Recovery, launcher: type[Launcher]) -> str | None:
    """Why the scenario cannot take `case`, or None."""
    if not registry.load("strategies", case.strategy).resumes:
        return f"ranks of strategy {case.strategy} cannot take their training up again from checkpoints of their own"
    if case.undecided:
        return f"{case.undecided[0]}: auto is decided by the case's own first launch"
    for name, steps in (("steps", wanted.steps), ("period_steps", wanted.period_steps)):
        if steps % case.steps_per_call:
            return f"{name} {steps} is no multiple of {case.steps_per_call} steps a call"
    if wanted.fault == "cut":
        if not issubclass(launcher, CutsLinks):
            return f"launcher {launcher.name} cannot cut a link; netlab can"
        if case.hosts < 2:
            return "one host has no link whose cut its ranks would notice"
    return None


def fault_of(case: Case, wanted: Recovery, seed: int) -> Fault:
    """Rank and moment that `seed` draws: any rank, any step but the last ones, any moment within the step after it."""
    draw = random.Random(f"recovery {seed}")
    layouts = registry.load("strategies", case.strategy)().layout(case)
    last = max(1, wanted.steps - LEFT * case.steps_per_call)
    rank, step = draw.randrange(len(layouts)), draw.randint(1, last)
    return Fault(kind=wanted.fault, rank=rank, step=step, fraction=draw.random())


def common(kept: Iterable[Iterable[int]]) -> int | None:
    """The newest step of which every rank has a whole checkpoint; None where there is none."""
    sets = [set(steps) for steps in kept]
    return max(set.intersection(*sets), default=None) if sets else None
