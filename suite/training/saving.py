"""What a rank saves of its training, through tf.train.CheckpointManager, and how it takes it up again.

Every rank saves by itself, from the plain variables of its own replicas, so that no collective is needed and no disk
shared. Weights, slots and loss scale are the same on all replicas of a synchronous job and are saved once a rank, unless
the exchange lets replicas drift apart; what the exchange keeps is each replica's own and is always saved for each.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfscale.suite.checkpoints import Checkpoints, Progress
from tfscale.suite.strategies.synchronous import SynchronousRunner
from tfscale.suite.timing.protocol import Fetched

if TYPE_CHECKING:
    from tfscale.suite.training.job import Job

_NAME = "checkpoint"


class Saver:
    """The checkpoints of one rank's job, whose step must have been traced: only then has the exchange its variables."""

    def __init__(self, job: "Job", folder: Path, keep: int) -> None:
        """Raises TypeError for a job whose progress is not in this process."""
        if not isinstance(job.runner, SynchronousRunner):
            raise TypeError(f"the progress of a {type(job.runner).__name__} cannot be saved")
        self._runner, self._world = job.runner, job.plan.world
        self.checkpoints = Checkpoints(folder)
        self._shared, apart = parts(job)
        first = self._shared[:1] if not job.step.exchange.drifts else self._shared
        checkpoint = tf.train.Checkpoint(
            shared={f"replica{n}": list(own) for n, own in enumerate(first)},
            apart={f"replica{n}": list(own) for n, own in enumerate(apart)},
        )
        assert (
            checkpoint.save_counter is not None
        )  # the manager's own count; it is made here, or it would not be restored
        self._checkpoint, self._keep = checkpoint, keep
        self._manager = self._new_manager()

    def save(self, done: Fetched, losses: Sequence[float]) -> int:
        """Save what was trained so far; the bytes of it. It is on disk, whole, when this returns. Raises OSError."""
        kept = [step for step in self.checkpoints.kept() if step < done.step]
        self.checkpoints.forget(kept[: max(0, len(kept) + 1 - self._keep)])
        prefix = Path(self._manager.save(checkpoint_number=done.step))
        files = sorted(prefix.parent.glob(f"{prefix.name}.*"))
        progress = Progress(step=done.step, samples=done.samples, skipped=done.skipped, losses=list(losses))
        return self.checkpoints.commit(files, self._world, progress)

    def resume(self, step: int) -> Progress:
        """Take up the checkpoint of `step`, and forget newer ones: this job will come to those steps again.

        Raises NoCheckpointError.
        """
        progress = self.checkpoints.read(step, self._world).progress
        self.checkpoints.forget([newer for newer in self.checkpoints.kept() if newer > step])
        self._checkpoint.read(str(self.checkpoints.folder / f"{_NAME}-{step}")).assert_consumed()
        for other in self._shared[1:] if len(self._checkpoint.shared) == 1 else ():
            for target, source in zip(other, self._shared[0], strict=True):
                target.assign(source)
        self._manager = self._new_manager()
        last = progress.losses[-1]
        self._runner.go_on(Fetched(progress.step, progress.samples, last, progress.skipped, 0.0))
        return progress

    def _new_manager(self) -> Any:
        """A manager that knows no checkpoint: it would keep one that is half-written, and let a whole one go for it."""
        folder = self.checkpoints.folder
        (folder / "checkpoint").unlink(missing_ok=True)  # its list of what there is
        return tf.train.CheckpointManager(self._checkpoint, str(folder), self._keep, checkpoint_name=_NAME)


def parts(job: "Job") -> tuple[list[list[Any]], list[list[Any]]]:
    """Plain variables by local replica: what all replicas have alike, and what the exchange keeps of each."""
    replicas = range(job.session.local_replicas)
    step = job.step
    scale = step.loss_scale.variables() if step.loss_scale else []
    alike = [*step.variables, *(slot for row in step.slots for slot in row), *scale]
    shared = [[job.session.components(variable)[replica] for variable in alike] for replica in replicas]
    return shared, [step.exchange.state(replica) for replica in replicas]
