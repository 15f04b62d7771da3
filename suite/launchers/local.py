"""Ranks on this machine, forked from a parent that imported TensorFlow, or in fresh interpreters where they must be.

Trial t of every case is forked from parent t: forked trials share layout and hash seed, so two trials of one case
must not come from the same parent, or they would not be independent launches.
"""

import itertools
import json
import os
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from tfscale.suite import workload
from tfscale.suite.launchers.base import Job, Launcher
from tfscale.suite.launchers.child import PLAN
from tfscale.suite.launchers.environment import base_environment, why_fresh
from tfscale.suite.launchers.localjob import LocalJob, Rank
from tfscale.suite.launchers.parent import WarmParent
from tfscale.suite.plan import RankPlan
from tfscale.suite.rankfiles import LOG
from tfscale.suite.spec import Case

LAUNCH = "launch.json"
"""How a rank was started, in its folder: {start, reason, pid, launched_ns, effective}; the clock is perf_counter_ns."""
WORKER = "tfscale.suite.worker"
PROBE = "tfscale.suite.launchers.probe"
PROBE_S = 180.0
"""Seconds that the trial fork may take: a driver can need a minute to start, and code may be compiled for a new GPU."""
HEAVY = (
    "numpy",
    "scipy.special",
    "tensorflow",
    "keras",
    "tfscale.suite.timed",
    "tfscale.suite.losses",
    "tfscale.suite.recovery",
    "tfscale.suite.training.saving",
    "tfscale.suite.training.job",
    "tfscale.suite.strategies.synchronous",
    "tfscale.suite.strategies.scheduled",
    "tfscale.suite.profiling.capture",
)
"""What a rank imports. Importing them starts no thread and opens no device, which is checked before every fork."""
_PARENT_BYTES = 512 * 1024**2
"""Memory that a parent keeps, generously: 240 MB of its own on TensorFlow 2.21."""


def workload_modules(case: Case) -> list[str]:
    """Modules of ours that hold the case's model. A user's own may touch the runtime at import: its rank imports it."""
    named = workload.load(case.workload)
    modules = [named.model_module, named.data_module]
    return [module for module in modules if module and module.startswith("tfscale.")]


class LocalLauncher(Launcher):
    """Starts ranks as processes of this machine.

    `worker` is the module whose `main(plan)` a rank runs; `probe` the one that shows whether a forked rank can use a
    GPU, without which GPU ranks get fresh interpreters. `fork=False` gives every rank a fresh interpreter.
    `parents` is how many warm parents are kept at most; free memory may allow fewer.
    """

    name: ClassVar[str] = "local"
    shares: ClassVar[bool] = True

    def __init__(
        self,
        *,
        worker: str = WORKER,
        preload: Sequence[str] = HEAVY,
        modules_of: Callable[[Case], list[str]] = workload_modules,
        probe: str = PROBE,
        fork: bool = True,
        parents: int = 8,
        import_s: float = 180.0,
    ) -> None:
        self._worker, self._preload, self._modules_of = worker, preload, modules_of
        self._fork, self._most, self._import_s = fork, parents, import_s
        self._probe, self._probes = probe, WeakKeyDictionary[WarmParent, str | None]()
        self._warm: OrderedDict[int, WarmParent] = OrderedDict()
        self._cold: WarmParent | None = None
        self._jobs = itertools.count()

    @classmethod
    def refuses(cls, case: Case) -> str | None:
        if case.topology is not None:
            return f"topology {case.topology.name}: the local launcher has loopback only; use launcher netlab"
        return f"{case.hosts} hosts: the local launcher has one" if case.hosts > 1 else None

    def start(self, plans: Sequence[RankPlan]) -> Job:
        """Start all ranks of `plans`, each with its log in its folder. Raises LaunchError; nothing runs on then."""
        parent, reason = self._parent_for(plans)
        modules = [] if reason else self._modules_of(plans[0].case)
        job = LocalJob(parent)
        number = next(self._jobs)
        try:
            for plan in plans:
                job.add(self._start_rank(parent, number, plan, reason, modules))
        except BaseException:
            job.end(0.0)
            raise
        return job

    def warm(self, plans: Sequence[RankPlan]) -> None:
        """Make ready what ranks like `plans` are forked from: `start` is then quick. Raises LaunchError."""
        self._parent_for(plans)

    def _parent_for(self, plans: Sequence[RankPlan]) -> tuple[WarmParent, str | None]:
        """The parent that is to start the ranks, and why they get fresh interpreters from it, if they do."""
        reason = self._why_fresh(plans)
        if reason is None and plans[0].accelerator == "gpu":
            reason = self._probed(self._parent(plans[0].trial), plans[0])
        return (self._parent(plans[0].trial) if reason is None else self._fresh_parent()), reason

    def _start_rank(self, parent: WarmParent, job: int, plan: RankPlan, reason: str | None, modules: list[str]) -> Rank:
        directory = Path(plan.directory)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / PLAN).write_text(plan.model_dump_json(indent=1))
        request = {"job": job, "rank": plan.rank, "plan": plan.model_dump(mode="json")}
        launched_ns = time.perf_counter_ns()
        answer = parent.fork({**request, "fresh": reason is not None, "modules": modules}, self._import_s)
        start = {"start": answer["start"], "reason": reason or answer["reason"], "pid": answer["pid"]}
        (directory / LAUNCH).write_text(json.dumps({**start, "launched_ns": launched_ns, "effective": self.told()}))
        return Rank(pid=answer["pid"], directory=directory)

    def told(self) -> dict[str, Any]:
        """What else ranks were given that a record should hold among what was really used: plain JSON data."""
        return {}

    def _probed(self, parent: WarmParent, plan: RankPlan) -> str | None:
        """Why GPU ranks may not be forked from `parent`, or None; tried once for each parent."""
        if parent not in self._probes:
            with tempfile.TemporaryDirectory(prefix="tfscale-probe-") as directory:
                self._probes[parent] = self._try_fork(parent, plan.model_copy(update={"directory": directory}))
        return self._probes[parent]

    def _try_fork(self, parent: WarmParent, plan: RankPlan) -> str | None:
        request = {"job": -1, "rank": plan.rank, "plan": plan.model_dump(mode="json"), "worker": self._probe}
        answer = parent.fork({**request, "fresh": False, "modules": []}, self._import_s)
        if answer["start"] != "forked":
            return str(answer["reason"])
        job = LocalJob(parent)
        job.add(Rank(pid=answer["pid"], directory=Path(plan.directory)))
        deadline = time.monotonic() + PROBE_S
        while (code := job.exit_codes()[0]) is None and time.monotonic() < deadline:
            time.sleep(0.05)
        job.end(0.0)
        if code == 0:
            return None
        told = (Path(plan.directory) / LOG).read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        outcome = f"did not end within {PROBE_S:.0f} s" if code is None else f"ended with {code}"
        return f"the trial fork of a GPU rank {outcome}: {told[0]}"

    def _why_fresh(self, plans: Sequence[RankPlan]) -> str | None:
        if not self._fork:
            return "asked for"
        environment = base_environment(os.environ)
        return next((reason for plan in plans if (reason := why_fresh(plan, environment))), None)

    def _parent(self, trial: int) -> WarmParent:
        """The warm parent of this trial number, started now when it is the first time or was given up for memory."""
        parent = self._warm.pop(trial, None)
        if parent is not None and not parent.alive:
            parent.close()
            parent = None
        if parent is None:
            self._make_room()
            parent = WarmParent(self._worker, (*self._preload, self._worker))
        self._warm[trial] = parent
        parent.wait_ready(self._import_s)
        return parent

    def _make_room(self) -> None:
        import psutil

        while self._warm and (len(self._warm) >= self._most or psutil.virtual_memory().available < 2 * _PARENT_BYTES):
            self._warm.popitem(last=False)[1].close()

    def _fresh_parent(self) -> WarmParent:
        """A parent that has imported nothing: it only starts interpreters, and ends them when the harness dies."""
        if self._cold is None or not self._cold.alive:
            self._cold = WarmParent(self._worker, ())
        self._cold.wait_ready(self._import_s)
        return self._cold

    def close(self) -> None:
        parents = [*self._warm.values(), *([self._cold] if self._cold else [])]
        self._warm.clear()
        self._cold = None
        for parent in parents:
            parent.close()
