"""One case of two ranks, placed by every launcher: the same training, told of by records that differ in nothing else."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import slurm_cluster
import ssh_hosts
from test_mpi import HERE

from tfscale.suite import preparing, running
from tfscale.suite.launchers.slurm import NODES
from tfscale.suite.rankfiles import BLOCKS, read_arrays

pytestmark = [pytest.mark.system, pytest.mark.tensorflow]

SUITE = """
name: alike
matrix:
  workload: recommender
  preset: micro
  strategy: multi_worker_mirrored
  devices: 2
  hosts: HOSTS
  per_replica_batch: 64
measure: {trials: 1, steps: 6, tail_steps: 0}
monitors: false
cluster: CLUSTER
"""
PLACED = (
    "launcher",
    "host_name",
    "slurm_job",
    "slurm_restarts",
    "start",
    "start_reason",
    "clock_bound_s",
    "cores_shared",
)
"""Of `effective`: how ranks were placed. Whether they were forked is the launcher's business too."""


def record(folder: Path, cluster: str, hosts: int = 1) -> dict[str, Any]:
    folder.mkdir()
    suite = folder / "suite.yaml"
    suite.write_text(SUITE.replace("HOSTS", str(hosts)).replace("CLUSTER", cluster))
    prepared = preparing.prepare(str(suite), expression=None, trials=None, launcher=None)
    run, results = running.run(prepared, folder / "results", resume=False, overrides={})
    assert not run.failed, run.failed
    (only,) = run.records
    blocks = read_arrays(results / only.case_id / "0" / BLOCKS)
    losses = dict(zip(blocks["rank0/group_step"].tolist(), blocks["rank0/group_loss"].tolist(), strict=True))
    return {**json.loads(only.model_dump_json()), "losses": losses}


def same_losses(one: dict[str, Any], other: dict[str, Any]) -> None:
    """After the same steps, to 1e-6: how many steps a group has depends on time."""
    common = one["losses"].keys() & other["losses"].keys()
    assert len(common) >= 3
    for step in common:
        assert other["losses"][step] == pytest.approx(one["losses"][step], rel=1e-6)


def alike(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Everything of two records but ids, times, measured numbers, and where the ranks were."""
    assert one["case_id"] == other["case_id"] and one["case"] == other["case"]
    same_losses(one, other)
    assert {k: v for k, v in one["effective"].items() if k not in PLACED} == {
        k: v for k, v in other["effective"].items() if k not in PLACED
    }
    for name in ("global_batch", "steps", "samples", "parameters", "gradient_bytes", "ranks"):
        assert {**one["counts"], "global_batch": one["quantities"]["global_batch"]["value"]}[name] == {
            **other["counts"],
            "global_batch": other["quantities"]["global_batch"]["value"],
        }[name]
    assert one.keys() == other.keys() and one["quantities"].keys() == other["quantities"].keys()
    assert {k: v for k, v in one["environment"].items() if k in ("cpu", "packages", "python", "kernel")} == {
        k: v for k, v in other["environment"].items() if k in ("cpu", "packages", "python", "kernel")
    }


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return record(tmp_path_factory.mktemp("alike") / "local", "{launcher: local}")


@pytest.mark.skipif(ssh_hosts.missing() is not None, reason=str(ssh_hosts.missing()))
def test_ssh_on_one_host_and_on_two(local: dict[str, Any], tmp_path: Path) -> None:
    with ssh_hosts.hosts(tmp_path / "hosts") as hosts:
        cluster = f"{{launcher: ssh, hosts: [node1, node2], ssh_options: [-F, {hosts.config}], shared_disk: false}}"
        alike(local, record(tmp_path / "one", cluster))
        two = record(tmp_path / "two", cluster, hosts=2)
        same_losses(local, two)
        assert two["effective"]["launcher"] == "ssh" and len(two["environment"]["hosts"]) == 2


@pytest.mark.skipif(slurm_cluster.missing() is not None, reason=str(slurm_cluster.missing()))
def test_slurm(local: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with slurm_cluster.allocation(tmp_path / "slurm") as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert any(name in variables for name in NODES)
        alike(local, record(tmp_path / "one", "{launcher: slurm}"))


def test_mpi(local: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed (Debian: openmpi-bin)")
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.setenv(name, "1")
    alike(local, record(tmp_path / "one", f"{{launcher: mpi, mpi: {{options: {json.dumps(HERE)}}}}}"))
