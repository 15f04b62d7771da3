"""The launches of trainings to a target loss, one after the other, and the curve that each leaves."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfscale.suite.analysis import convergence
from tfscale.suite.blame import Blame
from tfscale.suite.interrupt import Interrupt
from tfscale.suite.launch import Bench, Launched, launch, load_strategy
from tfscale.suite.notices import Kind, Notice, OnNotice
from tfscale.suite.plan import Lengths
from tfscale.suite.rankfiles import LOSSES, read_arrays
from tfscale.suite.ranks import leading
from tfscale.suite.record import Curve, Failure, Quantity, unknown
from tfscale.suite.runfolder import SUITE, RunFolder, empty, utc_now
from tfscale.suite.spec import Case, TargetLoss
from tfscale.suite.timing.statistics import quantity
from tfscale.suite.trainings import Training
from tfscale.suite.watch import Preempted, Stopped

STALENESS = "mean over steps of the updates of others while one ran"


@dataclass
class Trainer:
    """Launches the trainings of one run and keeps what comes of them."""

    wanted: TargetLoss
    folder: RunFolder
    bench: Bench
    notify: OnNotice
    interrupt: Interrupt

    def run(self, wanted: Sequence[Training], known: Sequence[Curve]) -> None:
        """Those of `wanted` that are not `known`, until told to stop; what failed before is tried again."""
        done = {curve.case_id: curve for curve in known}
        for training in wanted:
            if self.interrupt.after_case():
                return
            if training.case.id in done:
                continue
            try:
                result = self.train(training, done)
            except Stopped as stopped:
                if isinstance(stopped, Preempted):
                    self.interrupt.preempt()
                self._tell("stopping", training)
                return
            if isinstance(result, Curve):
                done[result.case_id] = result

    def train(self, training: Training, done: Mapping[str, Curve]) -> Curve | Failure:
        """One training, on disk when this returns. `done`: those before it. Raises watch.Stopped when told to stop."""
        self._tell("training_started", training)
        result = self._train(training, done)
        self.folder.write_curve(result)
        if isinstance(result, Curve):
            self._tell("training_done", training, curve=result)
        else:
            self._tell("training_failed", training, failure=result)
        return result

    def _train(self, training: Training, done: Mapping[str, Curve]) -> Curve | Failure:
        folder = self.folder.curve(training.case.id)
        target = None
        if training.base is not None:
            if training.base.id not in done:
                empty(folder)
                return self._failure(
                    training, Blame("error", None, "the training with `none` that gives its target failed")
                )
            target = done[training.base.id].target
        launched = self._launch(training, folder, target)
        if launched.outcome.failure is not None:
            return self._failure(training, launched.outcome.failure, launched)
        try:
            arrays = read_arrays(Path(leading(launched.plans)[0].directory) / LOSSES)
            file = f"{Path(leading(launched.plans)[0].directory).name}/{LOSSES}"
            return curve_of(training, arrays, target, self.wanted, run=self.folder.run, file=file)
        except (OSError, ValueError, KeyError) as error:
            return self._failure(training, Blame("error", None, f"its losses cannot be used: {error}"), launched)

    def _launch(self, training: Training, folder: Path, target: float | None) -> Launched:
        def on_event(rank: int, event: dict[str, object]) -> None:
            self._tell("event", training, rank=rank, event=event)

        most = self.wanted.steps if target is None else self.wanted.limit
        bench = replace(
            self.bench,
            profile=None,
            monitors=(),
            lengths=Lengths(most=most, smoothing=self.wanted.smoothing, until=target),
            data_of=lambda case: self.bench.data_of(case.model_copy(update={"seed": training.data_seed})),
        )
        return launch(bench, training.case, 0, folder, "losses", on_event, self.interrupt.now)

    def _failure(self, training: Training, blame: Blame, launched: Launched | None = None) -> Failure:
        case = training.case
        return Failure(
            case=case.model_dump(mode="json"),
            case_id=case.id,
            trial=0,
            classification=blame.classification,
            reason=f"training to a target loss with seed {case.seed}: {blame.reason}",
            rank=blame.rank,
            log_tail=launched.outcome.log_tail if launched else "",
            stacks=launched.outcome.stacks if launched else None,
            reproduce=shlex.join(
                ["tfscale", "run", str(self.folder.path / SUITE), "--results", str(self.folder.path), "--resume"]
            ),
        )

    def _tell(self, kind: Kind, training: Training, **detail: object) -> None:
        self.notify(Notice(kind, training.case, None, detail))


def curve_of(
    training: Training,
    arrays: dict[str, NDArray[np.float64]],
    target: float | None,
    wanted: TargetLoss,
    *,
    run: str,
    file: str,
) -> Curve:
    """The document of one training from the losses of its steps. `target` None: this training gives it.

    Raises ValueError where it cannot: it ended early, or its loss is no number.
    """
    losses, case = arrays["loss"], training.case
    if target is None:
        target = convergence.target(losses, wanted.steps, wanted.smoothing)
    reached = convergence.steps_to(losses, target, wanted.smoothing)
    if (
        reached is None
        and losses.size < wanted.limit
        and not convergence.hopeless(losses[-wanted.smoothing :].tolist())
    ):
        raise ValueError(f"only {losses.size} of {wanted.limit} steps were trained, and the target was not reached")
    last = float(convergence.smoothed(losses, wanted.smoothing)[-1])
    return Curve(
        id=f"{run}/curves/{case.id}",
        run=run,
        created=utc_now(),
        case_id=case.id,
        case=case.model_dump(mode="json"),
        seed=case.seed,
        stands_for=training.stands_for,
        base=training.base.id if training.base else None,
        target=target,
        target_steps=wanted.steps,
        smoothing=wanted.smoothing,
        limit=wanted.limit,
        steps=int(losses.size),
        reached=reached,
        smoothed=last if np.isfinite(last) else None,
        staleness=staleness_of(case, arrays),
        files={"losses": file},
    )


def staleness_of(case: Case, arrays: dict[str, NDArray[np.float64]]) -> Quantity | None:
    """Mean staleness of an asynchronous training's steps; None for a synchronous one, which has none."""
    if load_strategy(case.strategy).synchronous:
        return None
    counted = arrays.get("staleness", np.empty(0))
    counted = counted[np.isfinite(counted)]
    if not counted.size:
        return unknown("updates", "measured", STALENESS, f"{case.strategy} does not count updates")
    return quantity(float(counted.mean()), "updates", STALENESS, n_samples=int(counted.size))
