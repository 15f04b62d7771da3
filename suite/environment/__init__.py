"""What this machine is, as far as it can be read without TensorFlow: hardware, libraries, settings.

Everything is read through Sources, so that a recorded bundle gives the environment of the machine it was made on.
Variables come from allow-lists, so that a secret never reaches a record. What could not be read is null, with a
`<name>_reason` beside it.
"""

from tfscale.suite.environment.facts import capture
from tfscale.suite.environment.here import accelerator, gpus, host_cores, installed, machine, visible_gpus
from tfscale.suite.environment.process import Process

__all__ = ["Process", "accelerator", "capture", "gpus", "host_cores", "installed", "machine", "visible_gpus"]
