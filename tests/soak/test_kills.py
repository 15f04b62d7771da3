"""A harness killed at any moment leaves only whole records and no process; what is left to do is done by `--resume`.

TFSCALE_SOAK_KILLS kills (500) during sweeps of stub cases, TFSCALE_SOAK_REAL_KILLS (20) during real ones.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_stub
from toy_kills import kills

KILLS = int(os.environ.get("TFSCALE_SOAK_KILLS", "500"))
REAL_KILLS = int(os.environ.get("TFSCALE_SOAK_REAL_KILLS", "20"))
CASES = 6
REAL = """
name: real
matrix:
  {workload: vit, preset: micro, strategy: [one_device, multi_worker_mirrored], devices: [1, 2], per_replica_batch: 2}
exclude: [{strategy: one_device, devices: 2}, {strategy: multi_worker_mirrored, devices: 1}]
measure: {steps: 20, trials: 1, tail_steps: 0}
profile: {steps: 2, warm_up_steps: 1}
"""


def test_kills_of_stub_sweeps(tmp_path: Path) -> None:
    patient = {"launch_s": 30, "join_s": 30, "first_step_s": 30, "step_s": 30}
    suite = toy_stub.suite(tmp_path / "suite.yaml", ["good"] * CASES, **patient)

    def start(results: Path, resume: bool) -> "subprocess.Popen[str]":
        return toy_stub.start(suite, results, *(["--resume"] if resume else []))

    print(f"\n{kills(start, tmp_path, CASES, KILLS, seed=1)}")


def test_kills_of_real_sweeps(tmp_path: Path, root: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(REAL)

    def start(results: Path, resume: bool) -> "subprocess.Popen[str]":
        words = [sys.executable, str(root / "harness.py"), "run", str(suite), "--results", str(results)]
        return subprocess.Popen(
            words + ["--resume"] * resume, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    print(f"\n{kills(start, tmp_path, 2, REAL_KILLS, seed=2)}")
