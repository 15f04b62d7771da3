"""The edges of the machine that this process runs on."""

from tfscale.suite.sources.base import Sources
from tfscale.suite.sources.commands import Commands
from tfscale.suite.sources.files import Files
from tfscale.suite.sources.nvml import Nvml


def here() -> Sources:
    """All edges of this machine."""
    return Sources(files=Files(), commands=Commands(), nvml=Nvml())
