"""Ranks on a GPU are forked only from a parent whose trial fork could use one. There is no GPU here, so the trial that
passes is a toy; the one that fails is the real probe."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_bench as toy

from tfscale.suite.launchers import local
from tfscale.suite.planner import Place
from tfscale.suite.watch import watch

pytestmark = pytest.mark.system
GPU = Place(host_cores=[], cores_per_device=0, accelerator="gpu", visible_gpus=["0", "1"])


def started(launcher: local.LocalLauncher, folder: Path) -> list[dict[str, str]]:
    """How both ranks of a good case on GPUs were started, twice."""
    told = []
    for number in range(2):
        plans = toy.plans(toy.case(), folder / str(number), place=GPU)
        job = launcher.start(plans)
        try:
            assert watch(job, plans).failure is None
        finally:
            job.end()
        told += [json.loads((Path(plan.directory) / local.LAUNCH).read_text()) for plan in plans]
    return told


def test_after_a_probe_that_passes_ranks_are_forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.use(monkeypatch)
    with toy.launcher(probe="toy_probe") as launcher:
        assert [rank["start"] for rank in started(launcher, tmp_path)] == ["forked"] * 4


def test_without_a_gpu_the_probe_says_so_and_ranks_get_fresh_interpreters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.use(monkeypatch)
    with toy.launcher() as launcher:
        ranks = started(launcher, tmp_path)
    assert [rank["start"] for rank in ranks] == ["fresh"] * 4
    assert all("the forked process sees no GPU" in rank["reason"] for rank in ranks)


def test_a_probe_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.use(monkeypatch)
    monkeypatch.setattr(local, "PROBE_S", 1.0)
    with toy.launcher(probe="toy_hanging_probe") as launcher:
        ranks = started(launcher, tmp_path)
    assert {rank["start"] for rank in ranks} == {"fresh"}
    assert "did not end within 1 s" in ranks[0]["reason"]
