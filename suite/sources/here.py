"""The edges of the machine that this process runs on."""

from typing import ClassVar

from tfscale.suite.sources.base import Answer, Source, Sources
from tfscale.suite.sources.commands import Commands
from tfscale.suite.sources.files import Files


class NoNvml(Source):
    """In place of NVML where it is not read."""

    name: ClassVar[str] = "nvml"

    def ask(self, key: str) -> Answer:
        return Answer(state="absent", reason="NVML is not read on this machine")

    def under(self, key: str) -> list[str]:
        return []


def here() -> Sources:
    """All edges of this machine."""
    return Sources(files=Files(), commands=Commands(), nvml=NoNvml())
