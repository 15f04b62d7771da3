"""A worker without TensorFlow that behaves as its case's `preset` says: it tests launchers, the watch and the engine.

`preset` is `good`, or `<what>@<rank>` for a rank that misbehaves (MISBEHAVIOURS), or `<what>@<rank>:<moment>` for one that
does so at a moment of its own (ACTS; start, join, first_step, step, after). Not a test module.
"""

import contextlib
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from tfscale.suite.events import EventLog
from tfscale.suite.plan import RankPlan
from tfscale.suite.rankfiles import BLOCKS, RankResult, SelfCheck, write_arrays, write_result
from tfscale.suite.timing.series import BlockSeries

STEPS = 60
STEP_S = 0.005


def main(plan: RankPlan) -> int:
    log = EventLog(Path(plan.directory))
    mischief = _mischief(plan)
    mischief("start", plan, log)
    log.phase("started")
    log.phase("imported")
    mischief("join", plan, log)
    with _bound(plan, log):
        for phase in ("joined", "built", "checked", "traced"):
            log.phase(phase)
        mischief("first_step", plan, log)
        log.phase("first_step")
        log.phase("steady")
        for step in range(STEPS):
            time.sleep(STEP_S)
            log.progress(step + 1, STEP_S)
            if step == STEPS // 2:
                mischief("step", plan, log)
        log.phase("timed")
        _finish(plan, log, mischief)
    log.phase("done")
    print("rank", plan.rank, "is done")
    return 0


def _finish(plan: RankPlan, log: EventLog, mischief: "Mischief") -> None:
    if plan.pass_ == "profiled":
        mischief("profile", plan, log)
        trace = Path(plan.profile_directory or plan.directory) / "plugins/profile/now/host.xplane.pb"
        trace.parent.mkdir(parents=True)
        trace.write_bytes(b"trace")
        log.phase("profiled")
        return
    write_arrays(Path(plan.directory) / BLOCKS, series(plan.case.step_batch).arrays())
    write_result(Path(plan.directory), result(plan))
    log.phase("written")
    mischief("after", plan, log)


@contextlib.contextmanager
def _bound(plan: RankPlan, log: EventLog) -> Iterator[None]:
    """Hold this rank's port, as a server of TensorFlow would."""
    if not plan.cluster:
        yield
        return
    with socket.socket() as server:
        try:
            server.bind(("0.0.0.0", int(plan.cluster["worker"][plan.role_index].rpartition(":")[2])))
        except OSError as error:
            log.error("port_in_use", str(error))
            sys.exit(1)
        server.listen()
        yield


def series(batch: int, blocks: int = 40, step_s: float = 0.01, loss_from: float = 5.0) -> BlockSeries:
    """A flat series of `blocks` blocks of 2 steps, with a little noise and a loss that falls."""
    groups = blocks + 2
    steps = np.full(groups, 2)
    noise = 1 + 0.001 * np.random.default_rng(blocks).standard_normal(groups)
    seconds = steps * step_s * noise
    return BlockSeries(
        begin_ns=1_000,
        first=1,
        stop=groups - 1,
        group_size=steps,
        group_end_ns=1_000 + np.cumsum(seconds * 1e9).astype(np.int64),
        group_step=np.cumsum(steps),
        group_samples=np.cumsum(steps) * batch,
        group_loss=np.linspace(loss_from, 1, groups),
        group_skipped=np.zeros(groups, dtype=np.int64),
    )


def result(plan: RankPlan, passed: bool | None = True, replicas: int | None = None) -> RankResult:
    return RankResult(
        rank=plan.rank,
        replicas=plan.case.devices if replicas is None else replicas,
        phases={"import": 0.1, "join": 0.01, "first_step": 0.02},
        effective={"math": "float32", "collective": None, "collective_reason": "a toy has none"},
        counts={"steps": 84, "samples": 84 * plan.case.step_batch, "retraces": 0, "skipped_steps": 0},
        self_check=SelfCheck(passed=passed, detail="toy"),
        memory_peak_bytes={"host": 10_000_000, "device": None},
        tail_s=[0.01] * 30,
    )


Mischief = Callable[[str, RankPlan, EventLog], None]


def _mischief(plan: RankPlan) -> "Mischief":
    what, _, where = plan.case.preset.partition("@")
    rank, _, moment = where.partition(":")
    if not rank or int(rank) != plan.rank:
        return _nothing
    return _at(moment, ACTS[what]) if moment else MISBEHAVIOURS[what]


def _nothing(moment: str, plan: RankPlan, log: EventLog) -> None:
    pass


def _at(moment: str, act: Callable[[EventLog], object]) -> Mischief:
    def mischief(now: str, plan: RankPlan, log: EventLog) -> None:
        if now == moment:
            act(log)

    return mischief


def _sleep(_: EventLog) -> None:
    time.sleep(600)


def _exhaust_memory(log: EventLog) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    try:
        held = bytearray(1 << 34)
    except MemoryError as error:
        log.error("MemoryError: ", repr(error))
        raise
    print(len(held))


def _say_and_exit(reason: str, detail: str = "") -> Callable[[EventLog], None]:
    def act(log: EventLog) -> None:
        log.error(reason, detail)
        sys.exit(3)

    return act


def _spawn_and_ignore_terminate(_: EventLog) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        time.sleep(600)
    time.sleep(600)


def _die_once(moment: str, plan: RankPlan, log: EventLog) -> None:
    """Die while profiling, the first time only: as TensorFlow's profiler does now and then."""
    mark = Path(plan.trial_directory).parent / "died"
    if moment == "profile" and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGABRT)


def _hold(moment: str, plan: RankPlan, log: EventLog) -> None:
    """Wait at half the steps until the test lets go: it wants to do something to a running job."""
    if moment == "step":
        time.sleep(600)


def _compile_kernels(_: EventLog) -> None:
    """What TensorFlow says, and then takes its time: longer than a first step may take otherwise."""
    print(
        "W0000 gpu_device.cc:2430] TensorFlow was not built with CUDA kernel binaries compatible with compute capability "
        "12.0. CUDA kernels will be jit-compiled from PTX, which could take 30 minutes or longer.",
        flush=True,
    )
    time.sleep(3)


MISBEHAVIOURS: dict[str, Mischief] = {
    "killed": _at("step", lambda _: os.kill(os.getpid(), signal.SIGKILL)),
    "frozen": _at("step", lambda _: os.kill(os.getpid(), signal.SIGSTOP)),
    "absent": _at("start", _sleep),
    "unjoined": _at("join", _sleep),
    "stuck": _at("first_step", _sleep),
    "silent": _hold,
    "compiles": _at("first_step", _compile_kernels),
    "quits": _at("step", lambda _: sys.exit(9)),
    "leaves": _at("step", lambda _: sys.exit(0)),
    "memory": _at("first_step", _exhaust_memory),
    "xla": _at("first_step", _say_and_exit("xla_unsupported", "InvalidArgumentError: is not compilable")),
    "disk": _at("step", _say_and_exit("OSError: [Errno 28] No space left on device")),
    "stubborn": _at("step", _spawn_and_ignore_terminate),
    "late_error": _at("after", _say_and_exit("UnavailableError: Connection reset by peer")),
    "bad_profile": _die_once,
    "worse_profile": _at("profile", lambda _: os.kill(os.getpid(), signal.SIGABRT)),
}

ACTS: dict[str, Callable[[EventLog], object]] = {
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "freeze": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "quit": lambda _: sys.exit(9),
    "leave": lambda _: sys.exit(0),
    "wait1s": lambda _: time.sleep(1),
    "wait": _sleep,
}

if __name__ == "__main__":
    sys.exit(main(RankPlan.model_validate_json(Path(sys.argv[1]).read_bytes())))
