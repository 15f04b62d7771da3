"""Runs `ip` and `tc`, without a shell; what fails is told with the command and what it said."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence

from tfscale.suite.launchers.errors import LaunchError

_SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where they are installed, and where the path of many accounts does not lead."""
TIMEOUT_S = 20.0


class LabError(LaunchError):
    """A lab that could not be built, changed or removed."""


def run(command: Sequence[str]) -> str:
    """Standard output of `command`. Raises LabError where it is not installed, fails, or takes more than TIMEOUT_S."""
    program = find(command[0])
    shown = shlex.join(command)
    try:
        done = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"`{shown}` did not end within {TIMEOUT_S:g} s") from None
    except OSError as error:
        raise LabError(f"`{shown}` could not be started: {error}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip() or "it said nothing"
        raise LabError(f"`{shown}` failed with code {done.returncode}: {said}")
    return done.stdout.decode(errors="replace")


def find(program: str) -> str:
    """Where `program` is. Raises LabError naming the package that has it."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SYSTEM])
    found = shutil.which(program, path=path)
    if found is None:
        raise LabError(f"netlab needs the program `{program}`, which is not installed; the package iproute2 has it")
    return found
