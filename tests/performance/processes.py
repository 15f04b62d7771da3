"""Child processes of the measurements."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


class ChildError(RuntimeError):
    """A child ended badly; the message holds the end of what it said."""


def script(name: str, *arguments: str, cores: Sequence[int] | None = None) -> Any:
    """Run a script of this folder in a fresh interpreter; its stdout is JSON."""
    return _json([sys.executable, str(HERE / name), *arguments], cores)


def tfscale(*arguments: str) -> Any:
    """Run the command line; `--json` is added. Exit code 1 is a finding and has a document too."""
    return _json([sys.executable, "-m", "tfscale.harness", *arguments, "--json"], None, good=(0, 1))


def _json(command: list[str], cores: Sequence[int] | None, good: tuple[int, ...] = (0,)) -> Any:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_BACKEND": "tensorflow"},
        preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None,
    )
    if done.returncode not in good or not done.stdout.strip():
        raise ChildError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)
