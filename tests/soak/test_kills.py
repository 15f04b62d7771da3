"""A harness killed at any moment leaves only whole records and no process; what is left to do is done by `--resume`."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_bench as toy

from tfscale.suite import store
from tfscale.suite.launchers import procfs

KILLS = int(os.environ.get("TFSCALE_SOAK_KILLS", "40"))
PRESETS = ["good"] * 6
HARNESS = """
import sys
sys.path.insert(0, {toy!r})
from pathlib import Path
import toy_bench as toy
from tfscale.suite.spec import Profile
results = Path({results!r})
with toy.launcher() as launcher:
    found = toy.latest(results)
    toy.sweep(toy.numbered({presets!r}), results, launcher, folder=found, profile=Profile()).run()
"""


def test_kills_at_random_moments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    toy.use(monkeypatch)
    chooser = random.Random(1)
    left_over, unfinished = 0, 0
    for number in range(KILLS):
        results = tmp_path / str(number // 4)  # four kills, each time resumed, then a new run
        script = HARNESS.format(toy=str(toy.HERE), results=str(results), presets=PRESETS)
        harness = subprocess.Popen([sys.executable, "-c", script])
        time.sleep(chooser.uniform(0.5, 6))
        harness.kill()
        harness.wait()
        wait_until_gone(results)
        if not results.exists():
            continue
        found = store.find_records(results)
        assert all(".tmp: left over" in warning for warning in found.warnings), found.warnings
        assert not found.failures
        left_over += len(found.warnings)
        unfinished += len(found.records) < len(PRESETS)
    print(f"\n{KILLS} kills: {unfinished} runs were unfinished, {left_over} temporary files were left")
    with toy.launcher() as launcher:
        for results in sorted(tmp_path.iterdir()):
            document = toy.sweep(toy.numbered(PRESETS), results, launcher, folder=toy.latest(results)).run()
            assert len(document.records) == len(PRESETS) and not document.failed


def wait_until_gone(results: Path) -> None:
    """Ranks of a killed harness end by themselves within moments."""
    pids = [json.loads(path.read_text() or "{}").get("pid") for path in results.rglob("launch.json")]
    deadline = time.monotonic() + 10
    while left := [pid for pid in pids if pid and procfs.session_members(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
