"""Ten kills of a harness at seeded moments; `tests/soak/test_kills.py` has hundreds."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_stub
from toy_kills import kills

pytestmark = pytest.mark.system
CASES = 3


def test_ten_kills(tmp_path: Path) -> None:
    patient = {"launch_s": 30, "join_s": 30, "first_step_s": 30, "step_s": 30}
    suite = toy_stub.suite(tmp_path / "suite.yaml", ["good"] * CASES, **patient)

    def start(results: Path, resume: bool) -> "subprocess.Popen[str]":
        return toy_stub.start(suite, results, *(["--resume"] if resume else []))

    tally = kills(start, tmp_path, CASES, 10, seed=3)
    print(f"\n{tally}")
    assert tally.kills == 10 and tally.seen["unfinished"]
