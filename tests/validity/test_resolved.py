"""A choice that differs from the run before, or between trials, is flagged; nothing else is."""

from pathlib import Path

import builder
import pytest
from judged import evidence, only

from tfscale.suite.record import Record
from tfscale.suite.runfolder import SUITE, RunFolder
from tfscale.suite.spec import Case
from tfscale.suite.validity import resolved

AXES = {"strategy": "multi_worker_mirrored", "devices": 2, "exchange": "auto"}
CASE = Case(workload="bert", preset="tiny", per_replica_batch=8, **AXES)  # type: ignore[arg-type]


def record(name: str | None, trial: int = 0, run: str = "r") -> Record:
    made = builder.record(CASE, trial=trial, run=run)
    return made if name is None else made.model_copy(update={"effective": {**made.effective, "resolved": name}})


def earlier(results: Path, run: str, *names: str) -> None:
    folder = RunFolder(results / run)
    folder.path.mkdir(parents=True)
    (folder.path / SUITE).write_text("name: x\n")
    for trial, name in enumerate(names):
        folder.write_record(record(name, trial, run))


def judge(results: Path, name: str, run: str = "2026-3") -> list:  # type: ignore[type-arg]
    told = {"resolved": name, "resolved_reason": "it is fast"}
    return list(resolved.resolution(evidence(results / run / CASE.id / "0", effective=told, **AXES)))


def test_the_newest_earlier_run_counts(tmp_path: Path) -> None:
    earlier(tmp_path, "2026-1", "none")
    earlier(tmp_path, "2026-2", "pack(mib=4)", "pack(mib=4)")
    earlier(tmp_path, "2026-4", "none")
    check = only(judge(tmp_path, "pack(mib=4)"))
    assert check.status == "VALID" and "2026-2" in check.detail
    check = only(judge(tmp_path, "none"))
    assert check.status == "SUSPECT"
    assert "pack(mib=4) in run 2026-2" in check.detail
    assert check.advice


def test_trials_that_differed_before_are_a_drift(tmp_path: Path) -> None:
    earlier(tmp_path, "2026-1", "pack(mib=4)", "none")
    assert only(judge(tmp_path, "none")).status == "SUSPECT"


def test_a_first_run_has_nothing_to_compare_with(tmp_path: Path) -> None:
    (tmp_path / "2026-0").mkdir()
    check = only(judge(tmp_path, "none"))
    assert check.status == "VALID" and "no earlier run" in check.detail


def test_an_exchange_that_chooses_nothing_is_not_asked(tmp_path: Path) -> None:
    assert list(resolved.resolution(evidence(tmp_path / "r" / "c" / "0"))) == []
    assert list(resolved.resolutions_agree([record(None), record(None, 1)])) == []


@pytest.mark.parametrize(("names", "status"), [(("none", "none"), "VALID"), (("none", "priority"), "SUSPECT")])
def test_trials_must_choose_alike(names: tuple[str, ...], status: str) -> None:
    check = only(resolved.resolutions_agree([record(name, trial) for trial, name in enumerate(names)]))
    assert check.status == status
