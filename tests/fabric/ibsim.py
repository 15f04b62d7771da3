"""A simulated fabric: Debian's ibsim, a subnet manager, and commands that meet it instead of an adapter."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from tfscale.suite.sources.base import Answer, Source
from tfscale.suite.sources.commands import Commands

TOOLS = ("ibsim", "ibsim-run", "opensm", "iblinkinfo", "ibstat", "perfquery", "ibqueryerrors", "smpquery")
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"


def missing() -> list[str]:
    """The programs that are not installed here."""
    return [tool for tool in TOOLS if shutil.which(tool, path=PATH) is None]


class Simulated(Source):
    """Commands that run against the simulated fabric."""

    name: ClassVar[str] = "commands"

    def __init__(self) -> None:
        self._commands = Commands()

    def ask(self, key: str) -> Answer:
        return self._commands.ask(f"ibsim-run {key}")

    def under(self, key: str) -> list[str]:
        return []


def _wait(what: str, ready: object, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not ready():  # type: ignore[operator]
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come up within {seconds:g} s")
        time.sleep(0.05)


@contextmanager
def fabric(folder: Path, net: str, seen_from: str, counters: str = "") -> Iterator[Simulated]:
    """The fabric `net` (ibsim's format) as the host `seen_from` sees it; `counters` are commands of ibsim's console."""
    (folder / "net").write_text(net)
    settings = {
        "PATH": PATH,
        "SIM_HOST": seen_from,
        "IBSIM_SOCKNAME": f"tfscale{os.getpid()}",
        "OSM_CACHE_DIR": str(folder),
        "OSM_TMP_DIR": str(folder),
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    said = folder / "ibsim.out"
    started: list[subprocess.Popen[bytes]] = []
    try:
        with said.open("wb") as out:
            started.append(
                subprocess.Popen(["ibsim", "-s", str(folder / "net")], stdin=subprocess.PIPE, stdout=out, stderr=out)
            )
        _wait("ibsim", lambda: b"simulator ready" in said.read_bytes())
        log = folder / "osm.out"
        with log.open("wb") as out:
            manager = ["ibsim-run", "opensm", "-f", str(folder / "osm.log")]
            # The library that stands in for the adapter leaves a tree of files in the working directory when it is killed.
            started.append(subprocess.Popen(manager, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder))
        commands = Simulated()
        _wait("opensm", lambda: "State: Active" in commands.ask("ibstat").value["stdout"])
        if counters:
            console = started[0].stdin
            assert console is not None
            console.write(counters.encode())
            console.flush()
            time.sleep(0.2)  # the console answers nothing
        yield commands
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
