"""A case made ready in this process, as a rank makes it: what the comparisons drive by hand."""

from pathlib import Path

from tfscale.suite import environment, registry, workload
from tfscale.suite.plan import RankPlan
from tfscale.suite.planner import Folders, Place, plan_launch
from tfscale.suite.spec import Case, Measure
from tfscale.suite.training.job import Job


def plan(case: Case, folder: Path, dropout: float | None = None) -> RankPlan:
    """The plan of a one-process case on all cores that this process may use."""
    cores = environment.host_cores()
    return plan_launch(
        case,
        0,
        registry.load("strategies", case.strategy)(),
        Place(host_cores=cores, cores_per_device=len(cores)),
        Folders(folder),
        measure=Measure(dropout=dropout),
        profile=None,
        pass_="timed",
    )[0]


def prepare(case: Case) -> None:
    """Threads and precision, before anything starts the runtime."""
    from tfscale.suite.strategies import devices
    from tfscale.suite.training import precision

    devices.configure(plan(case, Path()))
    precision.apply(case.precision)


def build(case: Case, dropout: float | None = None) -> Job:
    """Model, step, feed and runner of `case`, traced. Call `prepare` first."""
    own = plan(case, Path(), dropout)
    session = registry.load("strategies", case.strategy)().open(own)
    job = Job(own, session, workload.load(case.workload))
    job.build()
    job.runner.trace()
    return job
