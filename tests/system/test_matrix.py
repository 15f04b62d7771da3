"""One cell of each row of the fault matrix; `tests/soak/test_matrix.py` has all, and the rows about the harness itself
are in test_results_folder.py (disk full), test_faults.py (Ctrl-C) and test_kills.py."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_bench as toy
from toy_matrix import ONE_OF_EACH_ROW, Cell, endure

from tfscale.suite.launchers.local import LocalLauncher

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def ranks() -> Iterator[LocalLauncher]:
    with pytest.MonkeyPatch.context() as patch:
        toy.use(patch)
        with toy.launcher() as launcher:
            yield launcher


@pytest.mark.parametrize("cell", ONE_OF_EACH_ROW, ids=lambda cell: cell.name)
def test_a_fault_ends_in_its_class_and_the_sweep_finishes(cell: Cell, ranks: LocalLauncher, tmp_path: Path) -> None:
    endure(cell, ranks, tmp_path)
