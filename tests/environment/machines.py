"""Machines that we do not have, as trees of /sys and /proc, and sources with fixed answers."""

from pathlib import Path
from typing import Any, ClassVar

from tfscale.suite.environment import Process
from tfscale.suite.sources.base import Answer, Source, Sources
from tfscale.suite.sources.files import Files


class Fixed(Source):
    """Answers from a dict; everything else is absent."""

    name: ClassVar[str] = "fixed"

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self._answers = answers or {}

    def ask(self, key: str) -> Answer:
        answer = self._answers.get(key, Answer(state="absent", reason=f"{key} is not there"))
        return answer if isinstance(answer, Answer) else Answer(answer)

    def under(self, key: str) -> list[str]:
        prefix = f"{key}/" if key else ""
        return sorted({name[len(prefix) :].partition("/")[0] for name in self._answers if name.startswith(prefix)})


def tree(root: Path, contents: dict[str, str]) -> Files:
    """Files below `root`; a content that begins with `->` is a link to that path below the root."""
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("->"):
            target = root / content[2:]
            target.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)
        else:
            path.write_text(content)
    return Files(root)


PROCESS = Process(python="3.12.3", machine="x86_64", libc="glibc 2.39")


def sources(files: Source, commands: dict[str, Any] | None = None, nvml: dict[str, Any] | None = None) -> Sources:
    return Sources(files, Fixed(commands), Fixed(nvml))
