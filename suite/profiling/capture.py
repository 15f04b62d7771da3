"""The profiled pass: a few marked steps after the steady state, one trace for each rank in its own log directory.

The result is `<profile_directory>/plugins/profile/<time>/<host>.xplane.pb`, the layout that TensorBoard's profile
plugin opens. A rank of a multi-worker job may die inside TensorFlow's `stop` (events that begin on one thread and end
on another are merged after their storage moved); the engine runs the pass as a launch of its own and repeats it.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from tfscale.suite.events import EventLog

if TYPE_CHECKING:
    from tfscale.suite.training.job import Job

MARKER = "train"
"""Name of the step marker, which trace readers look for."""


class Capture:
    """The one owner of TensorFlow's profiler in this process: starts and stops it once, whatever happens between."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running = False

    def start(self) -> None:
        """Start tracing. TensorFlow's AlreadyExistsError means that somebody else traces this process."""
        import tensorflow as tf

        self._directory.mkdir(parents=True, exist_ok=True)
        # No options: their defaults are what is wanted, and TensorFlow 2.21 ignores every value with a warning.
        tf.profiler.experimental.start(str(self._directory))
        self._running = True

    def stop(self) -> None:
        """Stop and write the trace; does nothing when not running."""
        if self._running:
            import tensorflow as tf

            self._running = False
            tf.profiler.experimental.stop()

    def __enter__(self) -> "Capture":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def profiled_pass(job: "Job", events: EventLog) -> None:
    """Warm up, then trace `plan.profile.steps` steps, each under a step marker and waited for.

    Raises ValueError when the plan names no profile or no directory.
    """
    import tensorflow as tf

    plan = job.plan
    if plan.profile is None or plan.profile_directory is None:
        raise ValueError("a profiled pass needs `profile` and a directory for the trace")
    size = plan.case.steps_per_call
    events.phase("steady")
    for _ in range(-(-plan.profile.warm_up_steps // size)):
        fetched = job.runner.dispatch(size, 0.0).fetch()
        events.progress(fetched.step)
    with Capture(Path(plan.profile_directory)):
        for call in range(-(-plan.profile.steps // size)):
            with tf.profiler.experimental.Trace(MARKER, step_num=call * size, _r=1):
                job.runner.dispatch(size, 0.0).fetch()
    traces = written(Path(plan.profile_directory))
    if not traces:
        raise RuntimeError("the profiler wrote no trace")
    events.phase("profiled", steps=plan.profile.steps, bytes=sum(path.stat().st_size for path in traces))


def written(directory: Path) -> list[Path]:
    """The traces under a log directory, oldest first."""
    return sorted((directory / "plugins" / "profile").glob("*/*.xplane.pb"))
