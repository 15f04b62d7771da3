"""A results folder with two cases of two trials, one of them with quantities that are unknown, and a failed case."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))
import builder

from tfscale.suite.caseresult import case_result
from tfscale.suite.rankfiles import write_arrays
from tfscale.suite.record import Record, Run
from tfscale.suite.runfolder import RunFolder
from tfscale.suite.spec import Case

CASES = sorted(
    (
        Case(workload="bert", preset="tiny", per_replica_batch=8),
        Case(workload="recommender", preset="micro", strategy="mirrored", devices=2, per_replica_batch=128),
    ),
    key=lambda case: case.id,
)
"""In the order in which the store gives them: their records begin at the same time."""


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """The results folder, which tests only read, and its run."""
    results = tmp_path_factory.mktemp("stored")
    folder = RunFolder(results / "20250301-0200")
    folder.path.mkdir()
    (folder.path / "suite.yaml").write_text("name: example\n")
    records: list[Record] = []
    for number, case in enumerate(CASES):
        for trial in (0, 1):
            made = builder.record(case, trial=trial, step_s=0.1 * (1 + number) + 0.001 * trial + 1 / 3e6)
            write_arrays(folder.write_record(made).parent / "blocks.npz", builder.blocks(made))
            records.append(made)
    lost = Case(workload="vit", preset="small", strategy="mirrored", devices=4, per_replica_batch=8)
    failure = builder.failure(lost, "lost_rank", "rank 2 ended with signal 9", "log")
    folder.write_failure(failure)
    cases = tuple(case_result([r for r in records if r.case_id == case.id]) for case in CASES)
    run = builder.run_of(cases, tuple(records), (failure,))
    folder.write_run(run)
    return results, run
