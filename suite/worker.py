"""One rank of one case, from its first line to its last: join, build, check, trace, measure, write, leave.

A rank may be forked from a parent that imported TensorFlow and never touched its runtime; importing this module
imports no TensorFlow. `python -m tfscale.suite.worker PLAN.json` does the same in a fresh interpreter.

Seconds of each phase go to the result. What cannot be told apart: XLA compiles within the first call, so `first_step`
includes compilation, and `compile` is given only where the first step contains a compilation, as first step minus the
second (an upper bound: allocation and autotuning are in it); `import` is near zero in a forked rank.
"""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfscale.suite import faults, preemption, registry, workload
from tfscale.suite.events import EventLog
from tfscale.suite.phases import Phases
from tfscale.suite.plan import RankPlan

if TYPE_CHECKING:
    from tfscale.suite.strategies.base import Session, Strategy
    from tfscale.suite.timing.protocol import Fetched
    from tfscale.suite.training.job import Job


def main(plan: RankPlan) -> int:
    """Run the rank that `plan` describes; its exit code."""
    return as_rank(plan, run)


def as_rank(plan: RankPlan, work: "Callable[[RankPlan, Strategy, EventLog], None]") -> int:
    """Do `work` as the rank of `plan`; its exit code. Errors are told to the event log before it returns 1."""
    events = EventLog(Path(plan.directory))
    events.phase("started")
    prepare_process(plan)
    strategy: Strategy = registry.load("strategies", plan.case.strategy)()
    try:
        preemption.leave_when_warned()
        work(plan, strategy, events)
    except preemption.Preempted:
        events.preempted()
        return 0
    except Exception as error:  # the last frame of the rank: whatever it is, it is told and the rank ends
        events.error(*faults.describe(error))
        return 1
    finally:
        strategy.release(plan)
    events.phase("done")
    return 0


def prepare_process(plan: RankPlan) -> None:
    """Environment, cores and the stack dump, before TensorFlow looks at any of them."""
    from tfscale.suite.training import xla

    faults.dump_stacks_on_signal(Path(plan.directory))
    os.environ.update(plan.environment)
    os.environ.update(xla.environment(plan.case.xla, os.environ.get("TF_XLA_FLAGS", "")))
    if plan.cores:
        os.sched_setaffinity(0, plan.cores)


def run(plan: RankPlan, strategy: "Strategy", events: EventLog) -> None:
    """Everything between `started` and `done`."""
    phases = Phases()
    with phases("import"):
        import tensorflow as tf

        from tfscale.suite.strategies import devices
        from tfscale.suite.training import onednn, precision
        from tfscale.suite.training.job import Job

        tf.get_logger().setLevel("INFO")
    events.phase("imported")
    proof = onednn.proof_for(plan.case.precision, plan.accelerator)
    devices.configure(plan)
    if strategy.serves(plan):
        strategy.serve(plan, joined=lambda: events.phase("joined"))
        return
    precision.apply(plan.case.precision)
    with phases("join"):
        session = strategy.open(plan)
    preemption.leave_when_warned()  # again: joining a job gives the signal to TensorFlow
    assert_replicas(session, strategy, plan)
    events.phase("joined", replicas=session.replicas)
    with phases("build"):
        job = Job(plan, session, workload.load(plan.case.workload), proof)
        job.build()
    events.phase("built", parameters=job.parameters)
    with phases("trace"):
        job.runner.trace()  # an exchange that chooses does it when it sees the gradients, and what it chose is checked
    with phases("check"):
        job.self_check = session.self_check(job.step.exchange.resolved() or plan.case.exchange)
    events.phase("checked", passed=job.self_check.passed)
    if plan.pass_ == "recovery":
        from tfscale.suite.recovery import recovery_pass

        recovery_pass(job, events)
        leave(session)
        return
    begun = start(job, events, phases)
    if plan.pass_ == "timed":
        from tfscale.suite.timed import timed_pass

        timed_pass(job, events, phases)
    elif plan.pass_ == "pilot":
        from tfscale.suite.pilot import pilot_pass

        pilot_pass(job, events)
    elif plan.pass_ == "losses":
        from tfscale.suite.losses import losses_pass

        losses_pass(job, events, begun)
    else:
        from tfscale.suite.profiling.capture import profiled_pass

        profiled_pass(job, events)
    leave(session)


def start(job: "Job", events: EventLog, phases: Phases) -> "list[Fetched]":
    """The first two calls one by one; what they gave."""
    events.phase("traced")
    size = job.plan.case.steps_per_call
    with phases("first_step"):
        fetched = job.runner.dispatch(size, 0.0).fetch()
    with phases("second_step"):
        second = job.runner.dispatch(size, 0.0).fetch()
    events.phase("first_step", step=fetched.step, loss=repr(fetched.loss))
    return [fetched, second]


def leave(session: "Session") -> None:
    """Close the session. Results are on disk: a peer that has gone already is worth a line in the log, not a failure."""
    try:
        session.close()
    except Exception:
        traceback.print_exc()


def assert_replicas(session: "Session", strategy: "Strategy", plan: RankPlan) -> None:
    """Raises RuntimeError unless the session trains with as many replicas as planned (a lone worker joins nobody)."""
    planned = strategy.replicas(plan.case)
    if session.replicas != planned:
        raise RuntimeError(f"{planned} replicas are planned, this rank's strategy counts {session.replicas}")


def _from_file(path: str) -> Any:
    return RankPlan.model_validate_json(Path(path).read_bytes())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tfscale.suite.worker PLAN.json")
    code = main(_from_file(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # TensorFlow's destructors may wait for peers that are gone
