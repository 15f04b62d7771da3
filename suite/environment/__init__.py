"""What this machine is, as far as it can be read without TensorFlow: hardware, libraries, settings.

Everything is read through Sources, so that a recorded bundle gives the environment of the machine it was made on.
Variables come from allow-lists, so that a secret never reaches a record. What could not be read is null, with a
`<name>_reason` beside it.
"""

from typing import Any

from tfscale.suite.environment.here import accelerator, gpus, host_cores, installed, machine, visible_gpus
from tfscale.suite.environment.process import Process
from tfscale.suite.sources.base import Sources

__all__ = ["Process", "accelerator", "capture", "gpus", "host_cores", "installed", "machine", "visible_gpus"]


def capture(sources: Sources | None = None, process: Process | None = None) -> dict[str, Any]:
    """The whole environment as one document (`facts.capture`), of this machine and process unless others are given."""
    from tfscale.suite.environment import facts  # pruning needs none of it, and a dry run has to be quick

    return facts.capture(sources, process)
