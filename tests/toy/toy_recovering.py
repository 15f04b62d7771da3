"""A worker without TensorFlow that trains, saves and goes on as the pass `recovery` does. Not a test module.

Ranks meet in every step by files in the launch's folder, so a rank whose peer is gone waits in vain, as in a collective.
The loss of a step depends on every step before it, and on what each rank keeps of its own.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tfscale.suite import faults
from tfscale.suite.checkpoints import Checkpoints, Progress
from tfscale.suite.events import EventLog
from tfscale.suite.plan import RankPlan
from tfscale.suite.preemption import Preempted, Warned
from tfscale.suite.recovery import Mishap, finish, train
from tfscale.suite.timing.protocol import Fetched

STEP_S = 0.004
PATIENCE_S = 0.5


class Meeting:
    """All ranks' numbers of a step, once every rank has given its own."""

    def __init__(self, plan: RankPlan) -> None:
        self._folder, self._rank, self._world = Path(plan.trial_directory) / "meeting", plan.rank, plan.world
        self._folder.mkdir(exist_ok=True)

    def gather(self, step: int, *numbers: float) -> list[list[float]]:
        own = self._folder / f"{step}-{self._rank}"
        own.with_suffix(".tmp").write_text(" ".join(map(repr, numbers)))
        own.with_suffix(".tmp").rename(own)
        deadline = time.monotonic() + PATIENCE_S
        theirs = [self._folder / f"{step}-{rank}" for rank in range(self._world)]
        while not all(path.exists() for path in theirs):
            if time.monotonic() > deadline:
                raise RuntimeError("UnavailableError: Connection reset by peer")
            time.sleep(0.0005)
        return [[float(word) for word in path.read_text().split()] for path in theirs]


class Trainer:
    """Runner and pending step in one; `weight` is the same on all ranks, `residual` each rank's own."""

    def __init__(self, plan: RankPlan) -> None:
        self._meeting, self._rank = Meeting(plan), plan.rank
        self.step, self.weight, self.residual = 0, 1.0, 0.0
        self._control = 0.0

    def dispatch(self, steps: int, control: float) -> "Trainer":
        self._control = control
        return self

    def fetch(self) -> Fetched:
        time.sleep(STEP_S)
        self.step += 1
        gradient = self.weight / (self.step + self._rank) + self.residual
        self.residual = gradient / 7
        gathered = self._meeting.gather(self.step, gradient - self.residual, self._control)
        self.weight -= 0.01 * sum(numbers[0] for numbers in gathered)
        return Fetched(self.step, 8 * self.step, self.weight, 0, sum(numbers[1] for numbers in gathered))


class Saver:
    """Two numbers in a file, slowly, so that a kill may come in between."""

    def __init__(self, trainer: Trainer, plan: RankPlan) -> None:
        assert plan.checkpoint_directory is not None
        self._trainer, self._world = trainer, plan.world
        self.checkpoints = Checkpoints(Path(plan.checkpoint_directory))

    def save(self, done: Fetched, losses: Sequence[float]) -> int:
        data = self.checkpoints.folder / f"data-{done.step}"
        text = f"{self._trainer.weight!r} {self._trainer.residual!r}"
        data.write_text(text[: len(text) // 2])
        time.sleep(STEP_S)
        data.write_text(text)
        kept = self.checkpoints.kept()
        progress = Progress(step=done.step, samples=done.samples, skipped=0, losses=list(losses))
        size = self.checkpoints.commit([data], self._world, progress)
        self.checkpoints.forget([step for step in kept[:-1] if step < done.step])
        return size

    def resume(self, step: int) -> Progress:
        progress = self.checkpoints.read(step, self._world).progress
        self.checkpoints.forget([newer for newer in self.checkpoints.kept() if newer > step])
        words = (self.checkpoints.folder / f"data-{step}").read_text().split()
        self._trainer.weight, self._trainer.residual = (float(word) for word in words)
        self._trainer.step = step
        return progress


def main(plan: RankPlan) -> int:
    log = EventLog(Path(plan.directory))
    for phase in ("started", "imported", "joined", "built", "checked"):
        log.phase(phase)
    try:
        return work(plan, log)
    except Preempted:
        log.preempted()
        return 0
    except Exception as error:
        log.error(*faults.describe(error))
        return 1


def work(plan: RankPlan, log: EventLog) -> int:
    assert plan.stretch is not None
    warned, trainer = Warned(), Trainer(plan)
    log.phase("traced")
    if plan.case.preset == "broken" and plan.stretch.resume_step is not None:
        raise ValueError("this job never comes back")
    saver = Saver(trainer, plan)
    trained = train(trainer, saver, plan.stretch, log, warned, Mishap(plan.stretch.fault, plan.rank, log))
    finish(Path(plan.directory), saver, trained, log)
    log.phase("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(RankPlan.model_validate_json(Path(sys.argv[1]).read_bytes())))
