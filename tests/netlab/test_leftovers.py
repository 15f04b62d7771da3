"""Labs of dead owners are found and removed; those of living ones, and what is not ours, stay."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import rooms

from tfscale.suite.launchers import procfs
from tfscale.suite.netlab import leftovers, namespaces
from tfscale.suite.netlab.lab import Lab, new_name
from tfscale.suite.netlab.layout import LabName

HOLDER = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background of a shell
from tfscale.suite.netlab.lab import Lab
from tfscale.suite.topology import Topology
with Lab(Topology.model_validate({"hosts": 2, "link": "100Mbit"})) as lab:
    print(*lab.layout.namespaces, flush=True)
    time.sleep(600)
"""


def test_an_owner_is_a_process_and_when_it_started(tmp_path: Path) -> None:
    alive, reused, gone = LabName(10, 500, 1), LabName(11, 500, 1), LabName(12, 500, 7)
    for name in (alive.switch, alive.host(0), reused.host(1), gone.switch, "vpn", "tfs-notes"):
        (tmp_path / name).touch()
    found = leftovers.labs(tmp_path)
    assert found == {
        alive: sorted([alive.switch, alive.host(0)]),
        reused: [reused.host(1)],
        gone: [gone.switch],
    }
    started = {10: 500, 11: 900}
    assert set(leftovers.orphaned(found, started.get)) == {reused, gone}
    assert leftovers.labs(tmp_path / "none") == {}


def test_this_process_is_alive_and_an_ended_one_is_not() -> None:
    name = new_name()
    assert not leftovers.orphaned({name: []}) and new_name() != name
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # it has ended and is not reaped: nobody owns anything
    assert procfs.state(ended.pid) == "Z" and procfs.started(ended.pid) is None
    ended.wait()
    assert procfs.started(ended.pid) is None


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[str]]:
    """A process that holds a lab."""
    rooms.need_labs()
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def there(names: list[str]) -> list[str]:
    return [name for name in names if (namespaces.RUN / name).exists()]


@pytest.mark.system
def test_doctor_removes_what_a_killed_run_left_and_nothing_else(holder: subprocess.Popen[str], root: Path) -> None:
    assert holder.stdout is not None
    names = holder.stdout.readline().split()
    assert len(there(names)) == 3
    with Lab(rooms.topology(hosts=2)) as living:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert len(there(names)) == 3
        document = json.loads(doctor(root, "--clean", "--json").stdout)
        assert document["schema"] == "tfscale.clean/1"
        assert set(names) <= set(document["removed"]) and not document["failed"]
        assert set(living.layout.namespaces) <= set(document["in_use"])
        assert not there(names) and living.whole
        assert f"in use  {living.layout.name.switch}" in doctor(root, "--clean").stdout
    assert doctor(root, "--clean", "suites/quick.yaml").returncode == 2


def doctor(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "harness.py"), "doctor", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=root, timeout=60)


@pytest.mark.system
def test_a_lab_ends_with_its_context_on_ctrl_c(holder: subprocess.Popen[str]) -> None:
    assert holder.stdout is not None
    names = holder.stdout.readline().split()
    holder.send_signal(signal.SIGINT)
    holder.wait(10)
    assert not there(names)
