"""Agents that Open MPI's mpirun starts and that call back: two hosts of one machine."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_bench as toy
import toy_hosts

from tfscale.suite.cluster import Cluster
from tfscale.suite.launch import Bench, launch
from tfscale.suite.launchers.errors import LaunchError
from tfscale.suite.launchers.mpi import MpiLauncher
from tfscale.suite.watch import Outcome

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed (Debian: openmpi-bin)"),
]
HERE = ["--host", "localhost:2", "--oversubscribe", "--bind-to", "none", "-x", "TFSCALE_AGENT_TOKEN"]


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[MpiLauncher]:
    toy.use(monkeypatch)
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.setenv(name, "1")
    before = toy_hosts.agents()
    with MpiLauncher(Cluster.model_validate({"mpi": {"options": HERE}}), worker=toy.WORKER) as ranks:
        yield ranks
    toy_hosts.assert_gone(toy_hosts.agents() - before, within_s=15)


def run(launcher: MpiLauncher, preset: str, folder: Path) -> Outcome:
    launcher.offer(launcher.cluster, 2)
    bench = Bench(launcher, toy.PLACE, toy.QUICK, strategy_of=lambda case: toy.Spread())
    case = toy.case(preset, hosts=2)
    return launch(bench, case, 0, folder, "timed", lambda *_: None, lambda: False).outcome


def test_hosts_are_numbered_as_mpi_numbers_them(launcher: MpiLauncher, tmp_path: Path) -> None:
    assert run(launcher, "good", tmp_path) == Outcome(None)
    told = json.loads((tmp_path / "rank1/launch.json").read_text())["effective"]
    assert told["launcher"] == "mpi"
    plan = json.loads((tmp_path / "rank1/plan.json").read_text())
    assert (plan["rank"], plan["host"], len(plan["cluster"]["worker"])) == (1, 1, 2)


@pytest.mark.parametrize(("preset", "classification"), [("killed@1", "lost_rank"), ("frozen@0", "hung")])
def test_a_fault_ends_in_its_class(preset: str, classification: str, launcher: MpiLauncher, tmp_path: Path) -> None:
    failure = run(launcher, preset, tmp_path).failure
    assert failure is not None
    assert (failure.classification, failure.rank) == (classification, int(preset[-1]))


def test_a_site_whose_command_fails(launcher: MpiLauncher) -> None:
    launcher.cluster = Cluster.model_validate({"mpi": {"options": ["--host", "localhost:1", "--no-such-option"]}})
    with pytest.raises(LaunchError, match="mpirun ended with code"):
        launcher.hosts(toy.case(hosts=2))
    launcher.cluster = Cluster.model_validate({"mpi": {"command": ["no-such-mpirun"]}})
    with pytest.raises(LaunchError, match="no-such-mpirun cannot be started"):
        launcher.hosts(toy.case(hosts=2))


def test_one_process_a_host_is_asked_for() -> None:
    argv = MpiLauncher(Cluster()).argv(4, "10.0.0.1:7000")
    assert argv[:6] == ["mpirun", "-n", "4", "--map-by", "ppr:1:node", "--bind-to"]
    assert argv[-2:] == ["--connect", "10.0.0.1:7000"]
    srun = MpiLauncher(Cluster.model_validate({"mpi": {"command": ["srun", "--mpi=pmix"]}})).argv(4, "[fd00::1]:7000")
    assert srun[:5] == ["srun", "--mpi=pmix", "-n", "4", "--ntasks-per-node=1"]
