"""What an agent does when it is asked: facts, ports, preflight, and the jobs of its host."""

import errno
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tfscale.suite import environment
from tfscale.suite.cluster import Cluster
from tfscale.suite.launchers import ports, procfs
from tfscale.suite.launchers.errors import LaunchError, PortTakenError
from tfscale.suite.launchers.local import LocalLauncher
from tfscale.suite.launchers.localjob import LocalJob
from tfscale.suite.launchers.remote import network
from tfscale.suite.launchers.remote.streaming import Feed
from tfscale.suite.plan import RankPlan

Say = Callable[[dict[str, Any]], None]
SOFTWARE = ("tfscale", "tensorflow", "tensorflow-cpu", "keras", "numpy")
"""Distributions whose versions have to be the same on all hosts."""


class ToldLauncher(LocalLauncher):
    """Notes for the record what the harness tells of the launch."""

    effective: dict[str, Any]

    def told(self) -> dict[str, Any]:
        return self.effective


class HostedJob:
    """The ranks of one launch on this host. `feeds` is empty where the harness sees their folders by itself."""

    def __init__(self, number: int, ranks: Sequence[int], job: LocalJob, feeds: Sequence[Feed]) -> None:
        self.number, self.ranks, self.job, self.feeds = number, list(ranks), job, list(feeds)
        self._ended: set[int] = set()

    def report(self, say: Say) -> None:
        """Tell what is new of every rank; that it has ended, after all that it has written."""
        codes = self.job.exit_codes()
        for place, (rank, code) in enumerate(zip(self.ranks, codes, strict=True)):
            if rank in self._ended:
                continue
            if self.feeds:
                for piece in self.feeds[place].pieces(final=code is not None):
                    say({"event": "file", "job": self.number, "rank": rank, **piece.document()})
            if code is not None:
                self._ended.add(rank)
                told = {"code": code, "oom_kills": procfs.oom_kills()}
                say({"event": "exit", "job": self.number, "rank": rank, **told})


class Hosted:
    """The host's side of the launcher. Each `_do_<name>` answers one kind of request with plain JSON data."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._jobs: dict[int, HostedJob] = {}
        self._launcher: ToldLauncher | None = None
        self._listeners: network.Listeners | None = None
        self._workspace: Path | None = None

    def do(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request. Raises LaunchError, PortTakenError, ValueError or whatever else went wrong."""
        work = getattr(self, f"_do_{request['do']}", None)
        if work is None:
            raise ValueError(f"unknown request {request['do']!r}: is the agent of another version?")
        answer: dict[str, Any] = work(request)
        return answer

    def report(self) -> None:
        for job in self._jobs.values():
            job.report(self._say)

    def close(self) -> None:
        """End all ranks and forget what they left here."""
        try:
            for job in self._jobs.values():
                job.job.end(0.5)
            if self._launcher is not None:
                self._launcher.close()
        finally:
            if self._workspace is not None:
                shutil.rmtree(self._workspace, ignore_errors=True)

    def _do_hello(self, request: dict[str, Any]) -> dict[str, Any]:
        """Facts of this host, and settings for the ranks: {environment, worker, preload, modules, effective}."""
        os.environ.update(request["environment"])
        options: dict[str, Any] = {"worker": request["worker"]} if request.get("worker") else {}
        if request.get("bare"):  # ranks that import nothing of TensorFlow
            options |= {"preload": (), "modules_of": lambda case: []}
            sys.path[:0] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        self._launcher = ToldLauncher(**options)
        self._launcher.effective = {**request["effective"], "host_name": socket.gethostname()}
        kind = environment.accelerator(request["accelerator"])
        machine = environment.machine(Cluster(accelerator=kind))
        return {
            "software": {name: found for name in SOFTWARE if (found := _version(name))},
            "python": sys.version.split()[0],
            "host_name": socket.gethostname(),
            "identity": network.identity(),
            "interfaces": network.addresses(),
            "default_address": network.default_address(),
            "reached_at": _reached_at(),
            "placed": {
                k: os.environ[k] for k in ("SLURMD_NODENAME", "SLURM_JOB_ID", "SLURM_STEP_ID") if k in os.environ
            },
            "cores": environment.host_cores(),
            "gpus": environment.visible_gpus() if kind == "gpu" else [],
            "tpus": machine.tpus,
            "kind": kind,
            "pid": os.getpid(),
        }

    def _do_environment(self, request: dict[str, Any]) -> dict[str, Any]:
        return environment.capture()

    def _do_ports(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"ports": ports.free_ports(request["count"], request["taken"])}

    def _do_listen(self, request: dict[str, Any]) -> dict[str, Any]:
        self._hang_up()
        try:
            self._listeners = network.Listeners([(address, port) for address, port in request["endpoints"]])
        except OSError as error:
            kind = PortTakenError if error.errno == errno.EADDRINUSE else LaunchError
            raise kind(str(error.strerror)) from error
        return {}

    def _do_reach(self, request: dict[str, Any]) -> dict[str, Any]:
        endpoints = [(address, port) for address, port in request["endpoints"]]
        return {"unreachable": [[*endpoint, why] for endpoint, why in network.unreachable(endpoints)]}

    def _do_hang_up(self, request: dict[str, Any]) -> dict[str, Any]:
        self._hang_up()
        return {}

    def _do_warm(self, request: dict[str, Any]) -> dict[str, Any]:
        """Import what ranks of this trial number are forked from, so that all hosts start theirs together."""
        self._ready().warm([RankPlan.model_validate(plan) for plan in request["plans"]])
        return {}

    def _do_start(self, request: dict[str, Any]) -> dict[str, Any]:
        """Start ranks: {job, plans, marker, shared}. Their folders are the harness's where it is seen here."""
        plans = [RankPlan.model_validate(plan) for plan in request["plans"]]
        shared = request["shared"] if request["shared"] is not None else _sees(request["marker"])
        for plan in plans:
            if plan.data_directory and not Path(plan.data_directory).is_dir():
                raise LaunchError(f"{socket.gethostname()}: no folder {plan.data_directory} with the input files here")
        placed = plans if shared else [self._rebased(plan, request["job"]) for plan in plans]
        job = self._ready().start(placed)
        assert isinstance(job, LocalJob)
        feeds = [] if shared else [Feed(Path(plan.directory)) for plan in placed]
        self._jobs[request["job"]] = HostedJob(request["job"], [plan.rank for plan in plans], job, feeds)
        return {"shared": shared, "oom_kills": procfs.oom_kills()}

    def _do_state(self, request: dict[str, Any]) -> dict[str, Any]:
        job, place = self._found(request)
        return {"state": job.job.state(place)}

    def _do_stacks(self, request: dict[str, Any]) -> dict[str, Any]:
        job, place = self._found(request)
        return {"stacks": job.job.stacks(place)}

    def _do_end(self, request: dict[str, Any]) -> dict[str, Any]:
        """End a job; the answer comes after the last word of its ranks."""
        job = self._jobs.get(request["job"])
        if job is not None:
            job.job.end(request["grace_s"])
            job.report(self._say)
            del self._jobs[request["job"]]
        if self._workspace is not None:
            shutil.rmtree(self._workspace / str(request["job"]), ignore_errors=True)
        return {}

    def _found(self, request: dict[str, Any]) -> tuple[HostedJob, int]:
        job = self._jobs[request["job"]]
        return job, job.ranks.index(request["rank"])

    def _ready(self) -> ToldLauncher:
        if self._launcher is None:
            raise ValueError("nothing was said before the first job")
        return self._launcher

    def _hang_up(self) -> None:
        listeners, self._listeners = self._listeners, None
        if listeners is not None:
            listeners.close()

    def _rebased(self, plan: RankPlan, job: int) -> RankPlan:
        """The plan with folders of this host in place of the harness's."""
        if self._workspace is None:
            self._workspace = workspace()
        trial = self._workspace / str(job)
        own = trial / f"rank{plan.rank}"
        own.mkdir(parents=True, exist_ok=True)
        return plan.model_copy(
            update={
                "directory": str(own),
                "trial_directory": str(trial),
                "profile_directory": str(own) if plan.profile_directory else None,
                "environment": {k: v.replace(plan.directory, str(own)) for k, v in plan.environment.items()},
            }
        )


_WORKSPACE = re.compile(r"tfscale-agent-(\d+)-(\d+)-")


def workspace(folder: Path | None = None) -> Path:
    """A new folder for what ranks write here, named after this process; those of agents that were killed are removed."""
    holder = folder or Path(tempfile.gettempdir())
    for path in holder.glob("tfscale-agent-*"):
        owner = _WORKSPACE.match(path.name)
        if owner and path.stat().st_uid == os.getuid() and procfs.started(int(owner[1])) != int(owner[2]):
            shutil.rmtree(path, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"tfscale-agent-{os.getpid()}-{procfs.started(os.getpid())}-", dir=holder))


def _sees(marker: dict[str, str]) -> bool:
    """Whether the harness's disk is seen from here: a file that it has just written holds what it says."""
    try:
        return Path(marker["path"]).read_text() == marker["text"]
    except OSError:
        return False


def _reached_at() -> str | None:
    """The address under which ssh came to this host; None where it was not ssh."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    return words[2] if len(words) == 4 else None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
