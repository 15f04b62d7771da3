"""The first code of a rank's process, between the fork and the worker: nothing of the parent may leak into it."""

import ctypes
import faulthandler
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

from tfscale.suite.launchers.environment import STACKS
from tfscale.suite.netlab import namespaces
from tfscale.suite.plan import RankPlan
from tfscale.suite.rankfiles import LOG

PLAN = "plan.json"
PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(parent: int, sig: int = signal.SIGKILL) -> None:
    """Ask the kernel for `sig` when the parent ends; ends at once when it is already gone."""
    prctl(PR_SET_PDEATHSIG, sig)
    if os.getppid() != parent:
        os._exit(128 + sig)


def become_subreaper() -> None:
    """Adopt orphaned descendants, so that they can be reaped: a container's process 1 often does not."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def run_rank(plan: RankPlan, worker: str, *, fresh: bool, parent: int, close: Iterable[int]) -> NoReturn:
    """Become the rank of `plan`; never returns. `fresh` starts a new interpreter, else `worker.main` runs here."""
    code = 1
    try:
        _detach(plan, parent, close)
        if fresh:
            _execute(plan, worker)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.update(plan.environment)
        _dump_stacks_on_signal(Path(plan.directory))
        code = int(importlib.import_module(worker).main(plan))
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:  # the process ends here, whatever it was; the log and the exit code tell
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _detach(plan: RankPlan, parent: int, close: Iterable[int]) -> None:
    os.setsid()
    die_with_parent(parent)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    for descriptor in close:
        os.close(descriptor)
    _redirect(Path(plan.directory) / LOG)
    if plan.network_namespace is not None:  # a new interpreter and whatever the rank starts stay in it
        namespaces.enter(plan.network_namespace)
    if plan.cores:
        os.sched_setaffinity(0, plan.cores)


def _redirect(log: Path) -> None:
    """Standard input from nothing, output and errors to the rank's log, line by line."""
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for source, target in ((null, 0), (out, 1), (out, 2)):
        os.dup2(source, target)
    os.close(null)
    os.close(out)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115


def _dump_stacks_on_signal(directory: Path) -> None:
    """SIGUSR1 writes every thread's stack to a file; a crash writes it to the log."""
    faulthandler.enable(file=2)
    stacks = os.open(directory / STACKS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)


def _execute(plan: RankPlan, worker: str) -> NoReturn:
    # Ignored signals stay ignored over exec: a stack request that comes before the worker listens must not end it.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    environment: Mapping[str, str] = {**os.environ, **plan.environment, "PYTHONFAULTHANDLER": "1"}
    arguments = [sys.executable, "-m", worker, str(Path(plan.directory) / PLAN)]
    os.execve(sys.executable, arguments, environment)
