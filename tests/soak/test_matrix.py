"""The whole fault matrix on local ranks, forked and in fresh interpreters; and Ctrl-C at many moments."""

import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_bench as toy
import toy_stub
from toy_kills import assert_nothing_left
from toy_matrix import CELLS, Cell, endure

from tfscale.suite import store
from tfscale.suite.launchers.local import LocalLauncher

PATIENT = {"launch_s": 30, "join_s": 30, "first_step_s": 30, "step_s": 30}
CASES = 5


@pytest.fixture(scope="module", params=[True, False], ids=["forked", "fresh"])
def ranks(request: pytest.FixtureRequest) -> Iterator[LocalLauncher]:
    with pytest.MonkeyPatch.context() as patch:
        toy.use(patch)
        with toy.launcher(fork=request.param) as launcher:
            yield launcher


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_a_fault_ends_in_its_class_and_the_sweep_finishes(cell: Cell, ranks: LocalLauncher, tmp_path: Path) -> None:
    endure(cell, ranks, tmp_path)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_ctrl_c_at_any_moment(seed: int, times: int, tmp_path: Path) -> None:
    """Once: the running case is finished. Twice: it ends at once. Either way `--resume` does the rest."""
    chooser, results = random.Random(seed), tmp_path / "results"
    suite = toy_stub.suite(tmp_path / "suite.yaml", ["good"] * CASES, **PATIENT)
    harness = toy_stub.start(suite, results)
    while not list(results.glob("*/*/0/rank0/launch.json")):  # before its first case it is not listening yet
        time.sleep(0.01)
    time.sleep(chooser.uniform(0.0, 2.0))
    for _ in range(times):
        harness.send_signal(signal.SIGINT)
        time.sleep(chooser.uniform(0.0, 0.1))
    _, told = harness.communicate(timeout=60)
    assert harness.returncode in (0, 3), told
    assert "Traceback" not in told
    assert_nothing_left(harness.pid, results)
    found = store.find_records(results)
    assert not found.warnings and not found.failures
    assert (harness.returncode == 0) == (len(found.records) == CASES)
    done = toy_stub.run(suite, results, "--resume")
    assert done.returncode == 0, done.stderr
    assert len(store.find_records(results).records) == CASES
