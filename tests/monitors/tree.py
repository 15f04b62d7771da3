"""File trees of machines we do not have, written down as text. Not a test module.

A line is `path = content` or `path -> target of a link`; a path without either is a folder. `#` begins a comment.
Below `[folder]` the paths are relative to it.
"""

from pathlib import Path

from tfscale.suite.monitors.base import Target
from tfscale.suite.sources.base import Answer, Source, Sources
from tfscale.suite.sources.files import Files

TREES = Path(__file__).parent / "trees"


class Nothing(Source):
    """An edge that has nothing."""

    name = "nothing"

    def ask(self, key: str) -> Answer:
        return Answer(state="absent", reason=f"{key} is not there")

    def under(self, key: str) -> list[str]:
        return []


def lay(text: str, root: Path) -> Sources:
    """Make the tree of `text` below `root`, over what is there; the sources of that machine."""
    folder = root
    for line in text.splitlines():
        line = line.partition("#")[0].rstrip()
        if line.startswith("["):
            folder = root / line[1:-1]
        elif line:
            _lay_line(folder, line)
    return Sources(files=Files(root), commands=Nothing(), nvml=Nothing())


def _lay_line(folder: Path, line: str) -> None:
    name, mark, content = line.partition(" = ")
    link, arrow, target = line.partition(" -> ")
    path = folder / (name if mark else link)
    path.parent.mkdir(parents=True, exist_ok=True)
    if mark:
        path.write_text(content.replace("\\n", "\n") + "\n")
    elif arrow:
        path.symlink_to(target)
    else:
        path.mkdir(parents=True, exist_ok=True)


def machine(name: str, root: Path) -> Sources:
    """The machine of `trees/<name>.txt`, laid below `root`."""
    return lay((TREES / f"{name}.txt").read_text(), root)


def target(folder: Path) -> Target:
    return Target(folder, {})
