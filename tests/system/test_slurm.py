"""A real Slurm with two nodes: launches within an allocation, runs that are submitted, and what is left of them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import slurm_cluster
import toy_bench as toy
import toy_hosts

from tfscale.suite.cluster import Cluster
from tfscale.suite.launch import Bench, Launched, launch
from tfscale.suite.launchers import procfs
from tfscale.suite.launchers.errors import LaunchError
from tfscale.suite.launchers.slurm import SlurmLauncher
from tfscale.suite.watch import Outcome

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(slurm_cluster.missing() is not None, reason=str(slurm_cluster.missing())),
]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with slurm_cluster.cluster(tmp_path_factory.mktemp("slurm") / "cluster") as variables:
        yield variables


SUITE = """
name: submitted
matrix:
  workload: ["toy_bench:WORKLOAD"]
  preset: good
  strategy: ["toy_bench:Spread"]
  devices: 2
  hosts: 2
  per_replica_batch: [4, 8]
measure: {trials: 1}
monitors: false
cluster: {launcher: "toy_slurm:ToySlurm", cores_per_device: 1, slurm: {array: ARRAY, time: "00:05:00"}}
"""


@pytest.mark.parametrize("array", [False, True])
def test_a_run_is_submitted_and_its_records_name_the_job(array: bool, slurm: dict[str, str], tmp_path: Path) -> None:
    """First in this module: the allocation of the others takes both nodes."""
    suite, results = tmp_path / "suite.yaml", tmp_path / "results of it"
    suite.write_text(SUITE.replace("ARRAY", str(array).lower()))
    outside = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")}
    environment = {**outside, **slurm, "PYTHONPATH": str(toy.HERE)}
    command = [sys.executable, "-m", "tfscale.harness", "run", str(suite), "--results", str(results), "--json"]
    told = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    assert answer["schema"] == "tfscale.submitted/1"
    deadline = time.monotonic() + 60
    while subprocess.run(
        ["squeue", "-h", "-j", answer["job"]], capture_output=True, text=True, env=environment
    ).stdout.strip():
        assert time.monotonic() < deadline
        time.sleep(0.3)
    records = [json.loads(path.read_text()) for path in sorted(results.rglob("record.json"))]
    logs = "".join(path.read_text() for path in results.glob("slurm-*.out"))
    assert len(records) == 2, logs
    assert {record["effective"]["launcher"] for record in records} == {"slurm"}
    jobs = {record["effective"]["slurm_array_job" if array else "slurm_job"] for record in records}
    assert jobs == {answer["job"]}
    assert len(list(results.glob("element*"))) == (2 if array else 0)


@pytest.fixture(scope="module")
def allocation(slurm: dict[str, str]) -> Iterator[dict[str, str]]:
    """The variables of a shell within an allocation of both nodes."""
    with slurm_cluster.allocated(slurm) as variables:
        yield variables


@pytest.fixture
def launcher(allocation: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmLauncher]:
    toy.use(monkeypatch)
    for name, value in allocation.items():
        monkeypatch.setenv(name, value)
    before = toy_hosts.agents()
    with SlurmLauncher(Cluster(launcher="slurm"), worker=toy.WORKER, silence_s=5.0) as ranks:
        yield ranks
    toy_hosts.assert_gone(toy_hosts.agents() - before, within_s=15)
    steps = subprocess.run(["squeue", "--steps", "--noheader"], capture_output=True, text=True, check=True).stdout
    assert "tfscale" not in steps


def run(launcher: SlurmLauncher, preset: str, folder: Path, on_event: Any = lambda *_: None) -> Launched:
    bench = Bench(launcher, toy.PLACE, toy.QUICK, strategy_of=lambda case: toy.Spread())
    return launch(bench, toy.case(preset, hosts=2), 0, folder, "timed", on_event, lambda: False)


def test_rank_and_node_agree_in_slurms_order(launcher: SlurmLauncher, tmp_path: Path) -> None:
    """node9 before node10, which sorting as strings would turn round."""
    assert run(launcher, "good", tmp_path).outcome == Outcome(None)
    assert [host.entry.target for host in launcher._hosts] == ["node9", "node10"]
    assert [host.facts["placed"]["SLURMD_NODENAME"] for host in launcher._hosts] == ["node9", "node10"]
    told = json.loads((tmp_path / "rank0/launch.json").read_text())["effective"]
    assert (told["launcher"], told["slurm_job"]) == ("slurm", os.environ["SLURM_JOB_ID"])


FAULTS = {
    "killed@1": ("lost_rank", 1),
    "frozen@1": ("hung", 1),
    "absent@1": ("never_started", 1),
    "unjoined@0": ("join_timeout", 0),
    "quits@1": ("lost_rank", 1),
    "disk@0": ("disk_full", 0),
}


@pytest.mark.parametrize("preset", FAULTS)
def test_a_fault_on_a_node_ends_in_its_class(preset: str, launcher: SlurmLauncher, tmp_path: Path) -> None:
    begun = time.monotonic()
    failure = run(launcher, preset, tmp_path).outcome.failure
    assert failure is not None and (failure.classification, failure.rank) == FAULTS[preset]
    assert time.monotonic() - begun < 12


def test_a_step_that_slurm_ends_is_a_lost_host(launcher: SlurmLauncher, tmp_path: Path) -> None:
    def cancel(rank: int, event: dict[str, Any]) -> None:
        if event.get("name") == "steady" and rank == 1:
            steps = subprocess.run(["squeue", "--steps", "--noheader", "-o", "%i %N"], capture_output=True, text=True)
            step = next(line.split()[0] for line in steps.stdout.splitlines() if line.split()[1] == "node10")
            subprocess.run(["scancel", step], check=True)

    failure = run(launcher, "silent@1", tmp_path, cancel).outcome.failure
    assert failure is not None and (failure.classification, failure.rank) == ("lost_rank", 1)
    assert run(launcher, "good", tmp_path).outcome == Outcome(None)


def test_outside_of_an_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(LaunchError, match="not within an allocation"):
        SlurmLauncher(Cluster()).entries()
    monkeypatch.setenv("SLURM_JOB_NODELIST", "node[1-4]")
    monkeypatch.setenv("SLURM_STEP_NODELIST", "node3")
    assert [entry.target for entry in SlurmLauncher(Cluster()).entries()] == ["node3"]


def test_what_is_submitted_is_words(tmp_path: Path) -> None:
    """Nothing of a suite reaches a shell: a hostile name stays one word of sbatch's arguments."""
    from tfscale.suite.launchers.base import HandedOver
    from tfscale.suite.launchers.slurm import submission

    cluster = Cluster.model_validate({"slurm": {"partition": "gpu; rm -rf ~", "gres": "gpu:8", "options": ["--mem=0"]}})
    run = HandedOver("s", ["python", "-m", "x", "run", "$(a) b.yaml"], "devices>=2", tmp_path / "a%b", 4, ["c1", "c2"])
    argv = submission(cluster, run)
    assert "--partition=gpu; rm -rf ~" in argv and "$(a) b.yaml" in argv and argv[-2:] == ["--only", "devices>=2"]
    assert "--nodes=4" in argv and "--signal=B:USR1@120" in argv and "--requeue" in argv and "--mem=0" in argv
    assert f"--output={tmp_path}/a%%b/slurm-%j.out" in argv
    assert not any(word.startswith(("--gpus-per-task", "--array")) for word in argv)
    with pytest.raises(ValueError, match="no option of sbatch"):
        Cluster.model_validate({"slurm": {"options": ["rm"]}})


def test_nothing_of_the_cluster_is_left() -> None:
    """Runs last in this module: the daemons are the fixture's to end, ranks and agents are ours."""
    assert not [pid for pid in toy_hosts.agents() if procfs.parent_of(pid) == 1]
