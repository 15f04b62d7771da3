"""A run, end to end: every case is launched, watched, merged, stored and, once, profiled; failures do not end it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import psutil

from tfscale.suite import deciding, environment, store, writable
from tfscale.suite.adaptive import Pilot
from tfscale.suite.blame import Blame
from tfscale.suite.caseresult import case_results, target_met
from tfscale.suite.curves import Trainer
from tfscale.suite.interrupt import Interrupt
from tfscale.suite.lanes import Neighbours, devices_of, in_lanes, split
from tfscale.suite.launch import Bench, Launched, launch
from tfscale.suite.merge import merge
from tfscale.suite.notices import Kind, Notice, OnNotice, Remaining, ignore
from tfscale.suite.pilot import read_pilot
from tfscale.suite.plan import Pass
from tfscale.suite.profiled import profiled_cases
from tfscale.suite.profiling.ofrun import Profiled, profile_of
from tfscale.suite.ranks import MergeError, leading
from tfscale.suite.record import Failure, FaultClass, Pruned, Record, Retry, Run, Validity
from tfscale.suite.recoverer import Recoverer
from tfscale.suite.recoveries import sorted_out
from tfscale.suite.retrying import failure_of, launches
from tfscale.suite.runfolder import RunFolder, utc_now
from tfscale.suite.spec import Case, Recovery, TargetLoss
from tfscale.suite.trainings import trainings
from tfscale.suite.validity.judging import judge_profile
from tfscale.suite.watch import Outcome, Preempted, Stopped

WILL_RECUR: tuple[FaultClass, ...] = ("xla_unsupported", "oom", "disk_full", "error")
"""Failures that another trial of the same case would only repeat."""


@dataclass
class Sweep:
    """One run over `cases`: what to do, where it is kept, who is told."""

    suite: str
    cases: Sequence[Case]
    folder: RunFolder
    bench: Bench
    reproduce: Callable[[Case], str]
    environment: dict[str, Any]
    pruned: Sequence[Pruned] = ()
    notify: OnNotice = ignore
    interrupt: Interrupt = field(default_factory=Interrupt)
    created: str = field(default_factory=utc_now)
    target_loss: TargetLoss | None = None
    nearby: Bench | None = None
    """Where trainings to a target loss are launched: this machine, without the cases' network; None: as the cases."""
    recovery: Recovery | None = None

    lanes: Sequence[Bench] = ()
    """Parts of the machine on which cases that fit run side by side; empty: one case after the other."""
    neighbours: Neighbours = field(default_factory=Neighbours)

    def __post_init__(self) -> None:
        self._profiled = profiled_cases(self.cases, self.bench.profile)
        self._trainings = trainings(self.cases, self.target_loss) if self.target_loss else []
        launcher = type(self.bench.launcher)
        self._recoveries = sorted_out(self.cases, self.recovery, launcher)[0] if self.recovery else []
        launches = len(self.cases) * self.bench.measure.trials + len(self._profiled)
        self._remaining = Remaining(launches, self.bench.measure)

    def run(self) -> Run:
        """Run what is not on disk yet, and return the run's document, which is then on disk too.

        Raises writable.ResultsError where results cannot be kept any more; those that are on disk are whole.
        """
        try:
            return self._run()
        except OSError as error:
            raise writable.explained(self.folder.path, error) from error

    def _run(self) -> Run:
        writable.check(self.folder.path)
        self.folder.write_run(self._document(store.Found()))
        known = store.find_records(self.folder.path)
        self.run_cases(known.records)
        if self.target_loss is not None:  # after all cases: trainings take longest
            trainer = Trainer(self.target_loss, self.folder, self.nearby or self.bench, self.notify, self.interrupt)
            trainer.run(self._trainings, known.curves)
        if self.recovery is not None:
            recoverer = Recoverer(self.recovery, self.folder, self.bench, self.notify, self.interrupt)
            recoverer.run(self._recoveries, known.recoveries)
        writable.there(self.folder.path)
        document = self._document(store.find_records(self.folder.path))
        document = document.model_copy(update={"ended": self._end(document)})
        self.folder.write_run(document)
        return document

    def run_cases(self, known: Sequence[Record]) -> None:
        """All cases, one after the other or in lanes, until told to stop. `known`: the records that are there already."""
        if self.lanes:
            small, large = split(self.cases, devices_of(self.lanes[0].place))
            lanes = [replace(self, bench=bench, lanes=()) for bench in self.lanes]
            for lane in lanes:
                lane._remaining = self._remaining
            self._remaining.lanes = len(lanes)
            in_lanes(small, [partial(lane._one, known) for lane in lanes])
            self._remaining.lanes = 1
        for case in large if self.lanes else self.cases:
            if not self._one(known, case):
                return

    def _one(self, known: Sequence[Record], case: Case) -> bool:
        """Run a case, unless the run is to end; False where it is."""
        if self.interrupt.after_case():
            return False
        try:
            self.run_case(case, [record for record in known if record.case_id == case.id])
        except Stopped as stopped:
            if isinstance(stopped, Preempted):
                self.interrupt.preempt()
            self._tell("stopping", case)
            return False
        return True

    def run_case(self, case: Case, done: list[Record]) -> list[Record]:
        """All trials of one case that are missing, then its profiled pass. Returns the records of the case."""
        measure = self.bench.measure
        self._tell("case_started", case)
        try:
            work = self._decided(case)
        except deciding.UndecidedError:
            self._tell("case_done", case)
            return done
        tried = {record.trial for record in done}  # what failed before is tried again: its cause may be gone
        for trial in range(measure.max_trials or measure.trials):
            if trial in tried:
                self._remaining.skip(1)
                continue
            if trial >= measure.trials:
                if not done or target_met(done, measure.target):
                    break
                self._remaining.skip(-1)
            result = self._trial(case, work, trial)
            if isinstance(result, Record):
                done.append(result)
            elif not done and result.classification in WILL_RECUR:
                self._remaining.skip(measure.trials - trial - 1)
                break
        if case.id in self._profiled:
            self._profile(case, work, sorted(done, key=lambda record: record.trial))
        self._tell("case_done", case)
        return done

    def _decided(self, case: Case) -> Case:
        """`case` with the numbers that it leaves open. Raises UndecidedError; the failure is on disk then, as trial 0's."""

        def measure(pilot: Case) -> Pilot:
            self._tell("pilot_started", case)
            folder = self.folder.pilot(case.id)
            launched = self._launch(case, pilot, 0, folder, "pilot")
            if launched.outcome.failure is None:
                try:
                    return read_pilot([Path(plan.directory) for plan in leading(launched.plans)])
                except (OSError, ValueError, KeyError) as error:
                    launched = replace(launched, outcome=Outcome(Blame("error", None, f"pilot launch: {error}")))
            failure = failure_of(case, 0, launched.outcome, self.reproduce(case))
            self.folder.write_failure(failure)
            self._tell("trial_failed", case, 0, failure=failure)
            raise deciding.UndecidedError(failure.reason)

        share, memory = self.bench.measure.exposed_share, memory_for_rank(case, self.bench.place.accelerator)
        return deciding.decided(case, self.folder.case(case.id), share, memory, measure)

    def _trial(self, case: Case, work: Case, trial: int) -> Record | Failure:
        """One launch of `case`, on disk when this returns: a record, or a failure of a class of the closed list.

        `work` is the same case with every number decided.
        """
        folder = self.folder.trial(case.id, trial)
        self._tell("trial_started", case, trial)

        def on_retry(retry: Retry) -> None:
            self._remaining.skip(-1)
            self._tell("trial_retry", case, trial, retry=retry)

        def attempt() -> Launched:
            return self._launch(case, work, trial, folder, "timed")

        launched, retries = launches(attempt, self.bench.measure.retries, on_retry)
        result = self._judge(case, trial, folder, launched, retries)
        if isinstance(result, Record):
            self.folder.write_record(result)
            self._tell("trial_done", case, trial, record=result)
        else:
            self.folder.write_failure(result)
            self._tell("trial_failed", case, trial, failure=result)
        return result

    def _judge(
        self, case: Case, trial: int, folder: Path, launched: Launched, retries: tuple[Retry, ...]
    ) -> Record | Failure:
        outcome, decisions = launched.outcome, deciding.told(self.folder.case(case.id))
        if outcome.failure is not None:
            return failure_of(case, trial, outcome, self.reproduce(case), retries)
        try:
            record = merge(
                launched.plans,
                run=self.folder.run,
                folder=folder,
                environment=self.environment,
                reproduce=self.reproduce(case),
                port_retries=launched.port_retries,
                notes=outcome.notes,
                monitors=self.bench.monitors,
                unsampled=launched.unsampled,
                neighbours=launched.neighbours,
            )
            return record.model_copy(update={"effective": {**record.effective, **decisions}, "retries": retries})
        except MergeError as error:
            blame = Blame("error", None, f"the ranks' results cannot be merged: {error}")
            return failure_of(case, trial, replace(outcome, failure=blame), self.reproduce(case), retries)

    def _profile(self, case: Case, work: Case, records: list[Record]) -> None:
        """The profiled pass: a launch of its own, retried and counted, its outcome added to the case's first record."""
        profile = self.bench.profile
        if profile is None or not records or "profiler_retries" in records[0].counts:
            self._remaining.skip(1)
            return
        record, folder = records[0], self.folder.profile(case.id)
        self._tell("profile_started", case)
        failure = None
        for attempt in range(profile.retries + 1):
            launched = self._launch(case, work, record.trial, folder, "profiled")
            failure = launched.outcome.failure
            if failure is None or failure.classification in WILL_RECUR:
                break
            if attempt < profile.retries:
                self._tell("profile_retry", case, attempt=attempt + 1, reason=failure.reason)
                self._remaining.skip(-1)
        reason = f"{failure.classification}: {failure.reason}" if failure else None
        found = profile_of(folder, record) if reason is None else Profiled(None, reason)
        records[0] = with_profile(record, attempt, reason, found)
        self.folder.write_record(records[0])
        self._tell("profile_failed" if reason else "profile_done", case, reason=reason)

    def _launch(self, case: Case, work: Case, trial: int, folder: Path, pass_: Pass) -> Launched:
        def on_event(rank: int, event: dict[str, Any]) -> None:
            kind: Kind = "port_retry" if event["event"] == "port_retry" else "event"
            self._tell(kind, case, trial, rank=rank, event=event)

        def stop() -> bool:
            writable.there(self.folder.path)  # where it is gone, a rank would make it anew, and its record be alone
            return self.interrupt.now()

        bench = self.bench if pass_ == "profiled" else replace(self.bench, profile=None)
        self._remaining.begin()
        with self.neighbours.running(case.title) as met:
            launched = launch(bench, work, trial, folder, pass_, on_event, stop, case)
        launched = replace(launched, neighbours=tuple(sorted(met)))
        self._remaining.end()
        if launched.outcome.failure is not None:
            writable.check(self.folder.path)  # a disk that is full fails a case, and every one after it
        return launched

    def _document(self, found: store.Found) -> Run:
        order = {case.id: number for number, case in enumerate(self.cases)}
        records = sorted(found.records, key=lambda r: (order.get(r.case_id, len(order)), r.trial))
        failures = sorted(found.failures, key=lambda f: (order.get(f.case_id, len(order)), f.trial))
        return Run(
            run=self.folder.run,
            suite=self.suite,
            created=self.created,
            cases=tuple(case_results(records)),
            records=tuple(records),
            failed=tuple(failures),
            pruned=tuple(self.pruned),
            missing=tuple(self._missing(records, failures, found)),
            environment=self.environment,
            curves=tuple(found.curves),
            recoveries=tuple(found.recoveries),
        )

    def _end(self, document: Run) -> Literal["complete", "interrupted", "preempted"]:
        if not document.missing:
            return "complete"
        return "preempted" if self.interrupt.preempted else "interrupted"

    def _missing(self, records: Sequence[Record], failures: Sequence[Failure], found: store.Found) -> list[str]:
        failed = {failure.case_id for failure in failures}
        ended = {record.case_id for record in records} | failed
        trained = {curve.case_id for curve in found.curves} | failed
        recovered = {result.case_id for result in found.recoveries} | failed
        untrained = [training.case.id for training in self._trainings if training.case.id not in trained]
        failing = [case.id for case in self._recoveries if case.id not in recovered]
        return list(dict.fromkeys([*(case.id for case in self.cases if case.id not in ended), *untrained, *failing]))

    def _tell(self, kind: Kind, case: Case, trial: int | None = None, **detail: Any) -> None:
        self.notify(Notice(kind, case, trial, detail, self._remaining.seconds))


def memory_for_rank(case: Case, accelerator: str) -> int | None:
    """Bytes that one rank of `case` may fill: of the smallest GPU, or its part of the host's; None where not known."""
    if accelerator == "gpu":
        known = [card["memory_bytes"] for card in environment.gpus() or () if card["memory_bytes"]]
        return min(known, default=None)
    if accelerator == "tpu":
        return None
    return psutil.virtual_memory().available // -(-case.devices // case.hosts)


def with_profile(record: Record, retries: int, failed: str | None, found: Profiled) -> Record:
    """`record` with the outcome of its profiled pass: where the profile lies, its breakdown or why there is none, checks."""
    told = {"profile_reason": failed, "profile": None} if failed else {"profile": "captured"}
    told |= {"breakdown_reason": found.reason} if found.breakdown is None and found.reason else {}
    parted = record.model_copy(
        update={
            "counts": {**record.counts, "profiler_retries": retries},
            "effective": {**record.effective, **told},
            "files": record.files if failed else {**record.files, "profile": "../profile"},
            "breakdown": found.breakdown,
        }
    )
    if found.trace is None:
        return parted
    checks = (*parted.validity.checks, *judge_profile(parted, found.trace))
    return parted.model_copy(update={"validity": Validity.of(checks)})
