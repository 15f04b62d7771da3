"""A real Slurm on this machine: a controller and several node daemons, with files, ports and keys of their own.

Not a test module. Nothing of a Slurm that the machine may have is used or touched.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tfscale.suite.launchers.ports import free_ports

COMMANDS = ("slurmctld", "slurmd", "munged", "srun", "sbatch", "scontrol", "squeue", "scancel")
START_S = 30.0

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
JobRequeue=1
KillWait=5
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


def missing() -> str | None:
    """Why no Slurm can be started here, or None."""
    absent = [name for name in COMMANDS if shutil.which(name) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (Debian: slurm-wlm, munge)"
    return None if os.geteuid() == 0 else "Slurm's daemons are started as root"


@contextmanager
def cluster(
    folder: Path, names: tuple[str, ...] = ("node9", "node10"), cores: int | None = None
) -> Iterator[dict[str, str]]:
    """A running Slurm; gives the variables with which its commands find it."""
    folder.mkdir(mode=0o755, exist_ok=True)
    for part in ("state", *(f"spool.{name}" for name in names)):
        (folder / part).mkdir()
    ports = free_ports(len(names) + 1)
    host, cores = socket.gethostname(), cores or os.cpu_count() or 1
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cores} State=UNKNOWN"
        for name, port in zip(names, ports[1:], strict=True)
    )
    configuration = folder / "slurm.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, host=host, controller_port=ports[0], nodes=nodes))
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        daemons.append(_munge(folder))
        daemons.append(_daemon(["slurmctld", "-D", "-f", str(configuration)], folder / "controller.out", environment))
        for name in names:
            command = ["slurmd", "-D", "-N", name, "-f", str(configuration)]
            daemons.append(_daemon(command, folder / f"{name}.out", environment))
        _wait_idle(len(names), environment, folder)
        yield {"SLURM_CONF": str(configuration)}
    finally:
        subprocess.run(
            ["scancel", "--user=root", "--full"], env=environment, capture_output=True, timeout=20, check=False
        )
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


@contextmanager
def allocated(variables: dict[str, str], nodes: int = 2) -> Iterator[dict[str, str]]:
    """The variables of a shell within an allocation of so many nodes of the cluster that `variables` find."""
    show = (
        "import os, json, sys; told = {k: v for k, v in os.environ.items() if k.startswith('SLURM')}; "
        "print(json.dumps(told), flush=True); sys.stdin.read()"
    )
    command = ["salloc", "--quiet", f"--nodes={nodes}", "--exclusive", sys.executable, "-c", show]
    shell = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables}
    )
    assert shell.stdout is not None and shell.stdin is not None
    try:
        yield json.loads(shell.stdout.readline())
    finally:
        shell.stdin.close()
        shell.wait(20)


@contextmanager
def allocation(folder: Path) -> Iterator[dict[str, str]]:
    """A cluster of its own, and an allocation of its nodes."""
    with cluster(folder) as variables, allocated(variables) as inside:
        yield inside


def _munge(folder: Path) -> subprocess.Popen[bytes]:
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    paths = {name: str(folder / f"munge.{name}") for name in ("socket", "pid", "log", "seed")}
    options = [f"--{name if name == 'socket' else f'{name}-file'}={path}" for name, path in paths.items()]
    command = ["munged", "--foreground", "--force", f"--key-file={key}", *options]
    daemon = _daemon(command, folder / "munge.out", dict(os.environ))
    deadline = time.monotonic() + START_S
    while not Path(paths["socket"]).exists():
        assert daemon.poll() is None and time.monotonic() < deadline, (folder / "munge.out").read_text()
        time.sleep(0.05)
    return daemon


def _daemon(command: list[str], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment)


def _wait_idle(count: int, environment: dict[str, str], folder: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        command = ["sinfo", "-h", "-N", "-o", "%N %t"]
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if sum(line.split()[1] == "idle" for line in told.stdout.splitlines() if len(line.split()) == 2) == count:
            return
        if time.monotonic() > deadline:
            logs = "\n".join(f"{path}:\n{path.read_text(errors='replace')[-1500:]}" for path in folder.glob("*.[lo]*"))
            raise RuntimeError(f"Slurm did not come up: {told.stdout}{told.stderr}\n{logs}")
        time.sleep(0.2)
