"""Programs of the machine that tell about it: run without a shell, with a time limit."""

import os
import shlex
import subprocess
from typing import ClassVar

from tfscale.suite.sources.base import Answer, Source

TIMEOUT_S = 10.0


class Commands(Source):
    """Command lines, split as a shell would; the answer is {rc, stdout, stderr}, whatever the exit status."""

    name: ClassVar[str] = "commands"

    def ask(self, key: str) -> Answer:
        argv = shlex.split(key)
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                env={**os.environ, "LC_ALL": "C"},
                check=False,
            )
        except FileNotFoundError:
            return Answer(state="absent", reason=f"{argv[0]} is not installed")
        except PermissionError:
            return Answer(state="no_permission", reason=f"{argv[0]} may not be run by this user")
        except subprocess.TimeoutExpired:
            return Answer(state="error", reason=f"{argv[0]} did not end within {TIMEOUT_S:g} s")
        except OSError as error:
            return Answer(state="error", reason=f"{argv[0]}: {error.strerror}")
        texts = {"stdout": done.stdout.decode(errors="replace"), "stderr": done.stderr.decode(errors="replace")}
        return Answer({"rc": done.returncode, **texts})

    def under(self, key: str) -> list[str]:
        return []
