"""Two settings run now, in turns: A B, B A, A B, ... on the same hosts, each launch beside its pair.

A machine that gets slower from hour to hour is then in both alike, and the ratio of a pair does not hold it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tfscale.suite import deciding, running
from tfscale.suite.compare.contest import Contest
from tfscale.suite.compare.forms import Pair, Pairing
from tfscale.suite.compare.sides import write_pairing
from tfscale.suite.engine import WILL_RECUR, Sweep
from tfscale.suite.notices import Remaining
from tfscale.suite.record import Failure, Record, Run
from tfscale.suite.spec import Case
from tfscale.suite.watch import Stopped


@dataclass
class PairedSweep(Sweep):
    """A run that goes through pairs instead of cases; a failed launch costs its pair only."""

    pairing: Pairing | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.pairing is not None
        self._remaining = Remaining(2 * len(self.pairing.pairs) + len(self._profiled), self.bench.measure)

    def run(self) -> Run:
        assert self.pairing is not None
        write_pairing(self.folder.path, self.pairing)
        return super().run()

    def run_cases(self, known: Sequence[Record]) -> None:
        assert self.pairing is not None
        by_id = {case.id: case for case in self.cases}
        groups: dict[tuple[str, str], list[Pair]] = {}
        for pair in self.pairing.pairs:
            if pair.case_a in by_id and pair.case_b in by_id:  # hosts that were asked since may have refused a case
                groups.setdefault((pair.case_a, pair.case_b), []).append(pair)
        for (a, b), turns in groups.items():
            if self.interrupt.after_case():
                return
            try:
                self._run_pairs(by_id[a], by_id[b], turns)
            except Stopped:
                self._tell("stopping", by_id[a])
                return

    def _run_pairs(self, a: Case, b: Case, turns: Sequence[Pair]) -> None:
        opponents = list({case.id: case for case in (a, b)}.values())
        for case in opponents:
            self._tell("case_started", case)
        try:
            work = {case.id: self._decided(case) for case in opponents}
            done = self._take_turns(a, b, work, turns)
            for case in opponents:
                if case.id in self._profiled and done[case.id]:
                    self._profile(case, work[case.id], done[case.id])
        except deciding.UndecidedError:  # told, and on disk as a failure
            self._remaining.skip(2 * len(turns))
        for case in opponents:
            self._tell("case_done", case)

    def _take_turns(self, a: Case, b: Case, work: dict[str, Case], turns: Sequence[Pair]) -> dict[str, list[Record]]:
        done: dict[str, list[Record]] = {a.id: [], b.id: []}
        for turn, pair in enumerate(turns):
            launches = [(a, pair.trial_a), (b, pair.trial_b)]
            for case, trial in launches if pair.first == "A" else reversed(launches):
                result = self._trial(case, work[case.id], trial)
                if isinstance(result, Record):
                    done[case.id].append(result)
                elif not done[case.id] and _recurs(result):
                    self._remaining.skip(2 * (len(turns) - turn - 1))
                    return done
        return done


def _recurs(failure: Failure) -> bool:
    return failure.classification in WILL_RECUR


def run(contest: Contest, results: Path, overrides: dict[str, str]) -> tuple[Run, Path]:
    """Run the contest as an ordinary run whose folder keeps the pairing; the run's document and its folder."""
    make = partial(PairedSweep, pairing=contest.pairing)
    return running.run(contest.prepared, results, resume=False, overrides=overrides, make=make)
