"""The launches of the scenario `recovery`: for each case a training without a failure, then one for each seed with one.

A training goes on, launch after launch, from the newest checkpoint that every rank has said to have whole. Ranks find
their own again in the plan's `checkpoint_directory`; nothing here looks into that folder, which may be another host's.
"""

import contextlib
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfscale.suite import legs as accounts
from tfscale.suite.blame import Blame
from tfscale.suite.interrupt import Interrupt
from tfscale.suite.launch import Bench, launch
from tfscale.suite.legs import Leg, Observed
from tfscale.suite.notices import Kind, Notice, OnNotice
from tfscale.suite.plan import Fault, Stretch
from tfscale.suite.record import Failure, RecoveryResult
from tfscale.suite.recovered import Training, result_of
from tfscale.suite.recoveries import CutsLinks, common, fault_of
from tfscale.suite.runfolder import SUITE, RunFolder, empty
from tfscale.suite.spec import Case, Recovery
from tfscale.suite.watch import Outcome, Preempted, Stopped

REFERENCE = "reference"
CHECKPOINTS = "checkpoints"


@dataclass
class Recoverer:
    """Runs the scenario for the cases of one run and keeps what comes of it."""

    wanted: Recovery
    folder: RunFolder
    bench: Bench
    notify: OnNotice
    interrupt: Interrupt

    def run(self, cases: Sequence[Case], known: Sequence[RecoveryResult]) -> None:
        """Those of `cases` that are not `known`, until told to stop; what did not come back before is tried again."""
        done = {result.case_id for result in known if all(failure.resumed for failure in result.failures)}
        for case in cases:
            if self.interrupt.after_case():
                return
            if case.id in done:
                continue
            try:
                self.recover(case)
            except Stopped as stopped:
                if isinstance(stopped, Preempted):
                    self.interrupt.preempt()
                self._tell("stopping", case)
                return

    def recover(self, case: Case) -> RecoveryResult | Failure:
        """The whole scenario of one case, on disk when this returns. Raises watch.Stopped when told to stop."""
        self._tell("recovery_started", case)
        result = self._result(case)
        self.folder.write_recovery(result)
        if isinstance(result, Failure):
            self._tell("recovery_failed", case, failure=result)
        else:
            self._tell("recovery_done", case, recovery=result)
        return result

    def _result(self, case: Case) -> RecoveryResult | Failure:
        reference = self._train(case, REFERENCE, None)
        last = reference.legs[-1]
        if last.end == "failed":
            return self._failure(case, last, f"training without a planned failure: {last.reason}")
        trainings = {
            seed: self._train(case, f"seed{seed}", fault_of(case, self.wanted, seed)) for seed in self.wanted.seeds
        }
        try:
            return result_of(
                case,
                self.wanted,
                reference,
                trainings,
                run=self.folder.run,
                accelerator=self.bench.place.accelerator,
                reproduce=self._reproduce(),
            )
        except (OSError, ValueError, KeyError) as error:
            return self._failure(case, last, f"what its ranks left cannot be used: {error}")

    def _train(self, case: Case, name: str, fault: Fault | None) -> Training:
        """One training, launch after launch, until it is done or a launch fails that was not to.

        One that was stopped goes on; one that failed before is tried anew.
        """
        folder = self.folder.recovery(case.id) / name
        world = len(self.bench.strategy_of(case).layout(case))
        legs = accounts.read(folder)
        if not legs or legs[-1].end == "failed":
            empty(folder)
            legs = []
        while not legs or legs[-1].end == "stopped" or (legs[-1].end == "failed" and legs[-1].struck_s is not None):
            struck = any(leg.struck_s is not None for leg in legs)
            leg, stopped = self._leg(case, folder, world, legs, None if struck else fault)
            legs.append(leg)
            accounts.write(folder, legs)
            if stopped is not None:
                raise stopped
        return Training(folder, fault, world, tuple(legs))

    def _leg(
        self, case: Case, folder: Path, world: int, before: Sequence[Leg], fault: Fault | None
    ) -> tuple[Leg, Stopped | None]:
        """One launch; and why the run is to stop after it, where it is."""
        kept = before[-1].kept if before else {}
        stretch = Stretch(
            steps=self.wanted.steps,
            period_steps=self.wanted.period_steps,
            keep=self.wanted.keep,
            checkpoints=str(self._checkpoints(case, folder)),
            resume_step=common(kept.get(rank, ()) for rank in range(world)),
            fault=fault,
        )
        where = folder / f"launch{len(before)}"
        with self._scissors(case) as cut:
            observed = Observed(cut)
            outcome, stopped = self._launch(case, where, stretch, observed)
        kept, reached = accounts.told_of(where, world, kept)
        blame = outcome.failure
        leg = Leg(
            number=len(before),
            resume_step=stretch.resume_step,
            end="stopped" if stopped is not None else "failed" if blame else "done",
            clock=accounts.this_clock(),
            reached_step=reached,
            struck_s=observed.struck_s,
            phases_s=observed.phases_s,
            noticed_s=outcome.noticed_s,
            ended_s=time.perf_counter(),
            classification=blame.classification if blame else None,
            reason=blame.reason if blame else None,
            rank=blame.rank if blame else None,
            log_tail=outcome.log_tail,
            kept=kept,
            start=accounts.start_of(where, world),
        )
        return leg, stopped

    def _launch(self, case: Case, where: Path, stretch: Stretch, observed: Observed) -> tuple[Outcome, Stopped | None]:
        def on_event(rank: int, event: dict[str, Any]) -> None:
            observed.event(rank, event)
            self._tell("event", case, rank=rank, event=event)

        measure = self.bench.measure
        if measure.dropout is None:  # its masks come from a generator whose state cannot be saved
            measure = measure.model_copy(update={"dropout": 0.0})
        bench = replace(
            self.bench, profile=None, monitors=(), stretch=stretch, save_s=self.wanted.save_s, measure=measure
        )
        try:
            return launch(bench, case, 0, where, "recovery", on_event, self.interrupt.now).outcome, None
        except Stopped as stopped:
            return Outcome(None), stopped

    @contextlib.contextmanager
    def _scissors(self, case: Case) -> Iterator[Any]:
        """What cuts the link of a rank's host; the link is whole again on leaving."""
        launcher = self.bench.launcher
        hosts = [layout.host for layout in self.bench.strategy_of(case).layout(case)]
        if not isinstance(launcher, CutsLinks):
            yield lambda rank: None
            return
        try:
            yield lambda rank: launcher.cut(case, hosts[rank])
        finally:
            launcher.mend()

    def _checkpoints(self, case: Case, folder: Path) -> Path:
        if self.wanted.directory is None:
            return folder / CHECKPOINTS
        return Path(self.wanted.directory) / self.folder.run / case.id / folder.name

    def _failure(self, case: Case, leg: Leg, reason: str) -> Failure:
        blame = Blame(leg.classification or "error", leg.rank, reason)
        return Failure(
            case=case.model_dump(mode="json"),
            case_id=case.id,
            trial=0,
            classification=blame.classification,
            reason=f"recovery: {blame.reason}",
            rank=blame.rank,
            log_tail=leg.log_tail,
            reproduce=self._reproduce(),
        )

    def _reproduce(self) -> str:
        return shlex.join(
            ["tfscale", "run", str(self.folder.path / SUITE), "--results", str(self.folder.path), "--resume"]
        )

    def _tell(self, kind: Kind, case: Case, **detail: Any) -> None:
        self.notify(Notice(kind, case, None, detail))
