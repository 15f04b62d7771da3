"""Did an exchange that chooses for itself choose the same as before? Numbers of different exchanges are not one series."""

from collections.abc import Iterator, Sequence

from tfscale.suite import store
from tfscale.suite.record import Check, Record
from tfscale.suite.runfolder import runs_of
from tfscale.suite.validity.base import Evidence

ADVICE = "name the exchange itself in the suite where its numbers are to be compared over time"


def resolution(evidence: Evidence) -> Iterator[Check]:
    """What was chosen against the newest earlier run of this case in the same results."""
    if "resolved" not in evidence.effective:
        return
    chosen, reason = evidence.effective["resolved"], evidence.effective.get("resolved_reason")
    told = {"resolved": chosen, "reason": reason}
    found = _before(evidence)
    if found is None:
        yield Check(
            name="resolution",
            status="VALID",
            detail=f"{evidence.case.exchange} came down to {chosen}; there is no earlier run of this case to compare with",
            evidence=told,
        )
        return
    run, before = found
    same = before == {chosen}
    earlier = " and ".join(sorted(map(str, before)))
    yield Check(
        name="resolution",
        status="VALID" if same else "SUSPECT",
        detail=f"{evidence.case.exchange} came down to {chosen}, {'as' if same else f'and to {earlier}'} in run {run}",
        evidence={**told, "before": sorted(map(str, before)), "run": run},
        advice=None if same else ADVICE,
    )


def _before(evidence: Evidence) -> tuple[str, set[str | None]] | None:
    """Name of the newest earlier run with records of this case, and what its trials came down to; None without one."""
    run = evidence.folder.resolve().parent.parent
    for earlier in reversed([path for path in runs_of(run.parent) if path.name < run.name]):
        folder = earlier / evidence.case.id
        if folder.is_dir() and (records := store.find_records(folder).records):
            return earlier.name, {record.effective.get("resolved") for record in records}
    return None


def resolutions_agree(trials: Sequence[Record]) -> Iterator[Check]:
    """All trials of a case chose the same, or their mean is that of different exchanges."""
    chosen = {record.trial: record.effective["resolved"] for record in trials if "resolved" in record.effective}
    if len(chosen) < 2:
        return
    different = sorted(set(map(str, chosen.values())))
    same = len(different) == 1
    yield Check(
        name="resolutions_agree",
        status="VALID" if same else "SUSPECT",
        detail=f"{len(chosen)} trials came down to {' and '.join(different)}",
        evidence={"resolved": {str(trial): name for trial, name in chosen.items()}},
        advice=None if same else ADVICE,
    )
