"""The harness's end of the sampler process: starts it beside a trial, ends it, and says why where it has nothing."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

SAMPLER = "tfscale.suite.monitors.sampler"
LINES = "monitors.jsonl"
"""What the sampler writes, in the trial's folder."""
CONFIG = "monitors.json"
_END_S = 1.0
"""A reading that hangs (a lost GPU can) is not waited for longer."""
_KILL_S = 0.5
_TOLD = 300


@dataclass(frozen=True)
class Sampling:
    """What is sampled beside a trial."""

    monitors: Sequence[str]
    folder: Path
    """The trial's folder: the ranks' folders are found in it, and the samples go to it."""
    visible: Mapping[str, str] = field(default_factory=dict)
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """`host0`, ... -> its network namespace, where hosts have some."""
    period_s: float = 0.1
    slow_s: float = 1.0

    @property
    def output(self) -> Path:
        return self.folder / LINES

    def document(self) -> str:
        """The sampler's CONFIG.json."""
        return json.dumps(
            {
                "monitors": list(self.monitors),
                "period_s": self.period_s,
                "slow_s": self.slow_s,
                "output": str(self.output),
                "folder": str(self.folder),
                "visible": dict(self.visible),
                "namespaces": dict(self.namespaces),
            }
        )


class Sampler:
    """A running sampler. Whatever happens to it is a `reason`, never an exception: a trial is worth more than counters.

    `environment` replaces the caller's. Where the harness dies the sampler ends by itself.
    """

    def __init__(self, sampling: Sampling, environment: Mapping[str, str] | None = None) -> None:
        self.reason: str | None = None
        """Why there are no samples, or none of the end."""
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        try:
            config = sampling.folder / CONFIG
            config.write_text(sampling.document())
            self._process = subprocess.Popen(
                [sys.executable, "-m", SAMPLER, str(config)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=environment,
                start_new_session=True,  # Ctrl-C in a terminal is the harness's to handle
            )
        except OSError as error:
            self.reason = f"the sampler of counters could not be started: {error}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def stop(self) -> str | None:
        """End it, within 2 s; again does nothing. Returns `reason`."""
        process, self._process = self._process, None
        if process is None:
            return self.reason
        died = process.poll()
        try:
            process.communicate(timeout=_END_S)  # closes its input, on which it takes its last samples and ends
        except subprocess.TimeoutExpired:
            process.kill()
            self.reason = f"the sampler of counters did not end within {_END_S:g} s (a reading hangs) and was killed"
        try:
            code = process.wait(_KILL_S)
        except subprocess.TimeoutExpired:
            self.reason = "the sampler of counters hangs in the kernel and cannot be ended; its process is left behind"
            return self.reason
        if self.reason is None and (died is not None or code != 0):
            self.reason = f"the sampler of counters ended early, {_how(code)}{self._last_words()}"
        self._errors.close()
        return self.reason

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1][:_TOLD]}" if lines else ""


def _how(code: int) -> str:
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"
